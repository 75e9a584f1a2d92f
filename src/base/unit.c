/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

__extension__ typedef unsigned __int128 wide;

struct unit {
    const char *name;
    int64_t size;
};

static const struct unit times[] = {
    { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { NULL, 0 }
};
static const struct unit sizes[] = { { "", 1 },
                                     { "k", INT64_C(1) << 10 },
                                     { "m", INT64_C(1) << 20 },
                                     { "g", INT64_C(1) << 30 },
                                     { "t", INT64_C(1) << 40 },
                                     { NULL, 0 } };
static const struct unit thousandths[] = { { "", 1000 }, { NULL, 0 } };

#define FRACTION_DIGITS 18

/* A decimal number: WHOLE + FRACTION / SCALE. */
struct number {
    int64_t whole;
    int64_t fraction, scale;
    bool has_fraction;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *scan_whole(const char *at, int64_t *out)
{
    int64_t value = 0;

    if (!is_digit(*at))
        return NULL;
    for (; is_digit(*at); at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *at - '0', &value))
            return NULL;
    }
    *out = value;
    return at;
}

/* Digits past the 18th change no value that fits, and are only checked. */
static const char *scan_number(const char *at, struct number *n)
{
    *n = (struct number){ .scale = 1 };
    at = scan_whole(at, &n->whole);
    if (!at || *at != '.')
        return at;
    n->has_fraction = true;
    if (!is_digit(*++at))
        return NULL;
    for (unsigned i = 0; is_digit(*at); at++, i++) {
        if (i < FRACTION_DIGITS) {
            n->fraction = n->fraction * 10 + (*at - '0');
            n->scale *= 10;
        }
    }
    return at;
}

/* Rounds down; but what is not zero must not become zero, which may mean "none". */
static int scale(const struct number *n, int64_t size, int64_t *out)
{
    int64_t value, part = (int64_t)((wide)n->fraction * (wide)size / (wide)n->scale);

    if (n->has_fraction && size == 1)
        return -1;
    if (__builtin_mul_overflow(n->whole, size, &value) ||
        __builtin_add_overflow(value, part, &value))
        return -1;
    if (value == 0 && n->fraction != 0)
        return -1;
    *out = value;
    return 0;
}

int unit_parse_count(const char *text, int64_t *out)
{
    int64_t value;
    const char *end = scan_whole(text, &value);

    if (!end || *end != '\0')
        return -1;
    *out = value;
    return 0;
}

int unit_parse_ms(const char *text, int64_t *out)
{
    struct number n;
    const char *suffix = scan_number(text, &n);

    if (!suffix)
        return -1;
    if (*suffix == '\0')
        suffix = "s";
    for (const struct unit *u = times; u->name; u++) {
        if (strcmp(suffix, u->name) == 0)
            return scale(&n, u->size, out);
    }
    return -1;
}

/* "", "b", "k", "kb", "kib" and so on, in either case. */
static bool is_size_suffix(const char *suffix, const char *unit)
{
    size_t len = strlen(unit);

    if (strncasecmp(suffix, unit, len) != 0)
        return false;
    suffix += len;
    return *suffix == '\0' || strcasecmp(suffix, "b") == 0 ||
           (len > 0 && strcasecmp(suffix, "ib") == 0);
}

int unit_parse_bytes(const char *text, int64_t *out)
{
    struct number n;
    const char *suffix = scan_number(text, &n);

    if (!suffix)
        return -1;
    for (const struct unit *u = sizes; u->name; u++) {
        if (is_size_suffix(suffix, u->name))
            return scale(&n, u->size, out);
    }
    return -1;
}

int unit_parse_milli(const char *text, int64_t *out)
{
    struct number n;
    const char *suffix = scan_number(text, &n);

    if (!suffix || *suffix != '\0')
        return -1;
    return scale(&n, thousandths[0].size, out);
}

/* Writes VALUE in UNIT with exactly DIGITS decimals, if that reads back as VALUE. */
static bool try_text(char *buf, size_t size, int64_t value, const struct unit *unit,
                     int digits)
{
    wide scaled, power = 1, step = (wide)unit->size;

    if (unit->size == 1 && digits > 0)
        return false;
    for (int i = 0; i < digits; i++)
        power *= 10;
    scaled = ((wide)value * power + step - 1) / step;
    if (scaled * step / power != (wide)value || (value != 0 && scaled == 0))
        return false;
    if (digits == 0)
        (void)snprintf(buf, size, "%lld%s", (long long)scaled, unit->name);
    else
        (void)snprintf(buf, size, "%lld.%0*lld%s", (long long)(scaled / power), digits,
                       (long long)(scaled % power), unit->name);
    return true;
}

/* Earlier units win a tie, and fewer decimals do. */
static void write_shortest(struct str *s, int64_t value, const struct unit *units)
{
    char best[48] = "", text[48];

    if (value < 0) {
        str_printf(s, "%lld", (long long)value);
        return;
    }
    for (const struct unit *u = units; u->name; u++) {
        for (int digits = 0; digits <= 3; digits++) {
            if (!try_text(text, sizeof text, value, u, digits))
                continue;
            if (best[0] == '\0' || strlen(text) < strlen(best))
                memcpy(best, text, sizeof best);
            break;
        }
    }
    str_puts(s, best);
}

void unit_write_ms(struct str *s, int64_t ms)
{
    write_shortest(s, ms, times);
}

void unit_write_bytes(struct str *s, int64_t bytes)
{
    write_shortest(s, bytes, sizes);
}

void unit_write_milli(struct str *s, int64_t milli)
{
    write_shortest(s, milli, thousandths);
}
