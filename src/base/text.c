/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdint.h>
#include <string.h>

/* How some bytes begin: with a whole character, a part of one, or none. */
enum kind { WHOLE, PARTIAL, BROKEN };

struct rune {
    enum kind kind;
    size_t len;     /* of the character, or of the maximal invalid part */
    uint32_t point; /* when WHOLE */
};

/* The second byte's range closes the doors to overlongs, surrogates and points
 * past U+10FFFF (Unicode 15, table 3-7). */
static size_t lead(unsigned char c, unsigned char *low, unsigned char *high)
{
    *low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    *high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c <= 0xDF)
        return 2;
    if (c >= 0xE0 && c <= 0xEF)
        return 3;
    if (c >= 0xF0 && c <= 0xF4)
        return 4;
    return 0;
}

/* LEN > 0. */
static struct rune decode(const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;
    unsigned char low, high;
    size_t size = lead(p[0], &low, &high);
    uint32_t point;

    if (size <= 1)
        return (struct rune){ size ? WHOLE : BROKEN, 1, p[0] };
    point = p[0] & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (i == len)
            return (struct rune){ PARTIAL, len, 0 };
        if (p[i] < low || p[i] > high)
            return (struct rune){ BROKEN, i, 0 };
        point = point << 6 | (p[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    return (struct rune){ WHOLE, size, point };
}

bool text_is_utf8(const char *data, size_t len)
{
    while (len > 0) {
        struct rune r = decode(data, len);

        if (r.kind != WHOLE)
            return false;
        data += r.len;
        len -= r.len;
    }
    return true;
}

size_t text_unfinished(const char *data, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char)data[len - back];
        size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

        if (c >= 0x80 && c < 0xc0)
            continue;
        return need > back ? back : 0;
    }
    return 0;
}

void text_repair(struct str *out, const char *data, size_t len)
{
    size_t good = 0; /* bytes at DATA that are valid and not yet appended */

    while (good < len) {
        struct rune r = decode(data + good, len - good);

        if (r.kind == WHOLE) {
            good += r.len;
            continue;
        }
        str_add(out, data, good);
        str_puts(out, "\xEF\xBF\xBD");
        data += good + r.len;
        len -= good + r.len;
        good = 0;
    }
    str_add(out, data, good);
}

/* Whether a character steers a display or a reader without being seen: DEL, C1,
 * bidirectional controls, line and paragraph separators. */
static bool is_hidden(uint32_t point)
{
    return (point >= 0x7F && point <= 0x9F) || point == 0x061C || point == 0x200E ||
           point == 0x200F || (point >= 0x2028 && point <= 0x202E) ||
           (point >= 0x2066 && point <= 0x2069);
}

/* Invisible copies of ASCII, by which text can be smuggled to a model. */
static bool is_tag(uint32_t point)
{
    return point >= 0xE0000 && point <= 0xE007F;
}

static void show_bytes(struct str *out, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        str_printf(out, "\\x%02x", (unsigned char)data[i]);
}

static void show(struct str *out, const char *data, const struct rune *r)
{
    uint32_t point = r->point;

    if (r->kind != WHOLE || (point < 0x20 && point != '\t' && point != '\n'))
        show_bytes(out, data, r->len);
    else if (is_hidden(point)) /* in the form that JSON has too */
        str_printf(out, "\\u%04x", (unsigned)point);
    else if (is_tag(point))
        str_printf(out, "\\udb40\\u%04x", 0xDC00u + (unsigned)(point - 0xE0000));
    else
        str_add(out, data, r->len);
}

/* Handles what stands at the front of DATA and returns how many bytes that
 * was; 0 when that depends on bytes still to come. */
static size_t step(struct str *out, const char *data, size_t len, bool last)
{
    struct rune r = decode(data, len);

    if (data[0] == '\r') {
        if (len == 1 && !last)
            return 0;
        if (len > 1 && data[1] == '\n') {
            str_add(out, data, 2);
            return 2;
        }
    }
    if (r.kind == PARTIAL && !last)
        return 0;
    show(out, data, &r);
    return r.len;
}

/* Handles held bytes until none is left or the next byte decides. */
static void step_held(struct text_safe *state, struct str *out, bool last)
{
    while (state->held_len > 0) {
        size_t n = step(out, state->held, state->held_len, last);

        if (n == 0)
            return;
        state->held_len -= n;
        memmove(state->held, state->held + n, state->held_len);
    }
}

void text_safe(struct text_safe *state, struct str *out, const char *data, size_t len)
{
    while (state->held_len > 0 && len > 0) {
        state->held[state->held_len++] = *data++;
        len--;
        step_held(state, out, false);
    }
    while (len > 0) {
        size_t n = step(out, data, len, false);

        if (n == 0)
            break;
        data += n;
        len -= n;
    }
    memcpy(state->held + state->held_len, data, len);
    state->held_len += len;
}

void text_safe_end(struct text_safe *state, struct str *out)
{
    step_held(state, out, true);
}

static bool is_quoted(unsigned char c)
{
    return c < ' ' || c == 0x7f || c == '"' || c == '\\';
}

static void put_quoted(struct str *out, unsigned char c)
{
    static const char named[] = "\aa\bb\tt\nn\vv\ff\rr\"\"\\\\";
    const char *at = named;

    while (*at && *at != (char)c)
        at += 2;
    if (*at)
        str_printf(out, "\\%c", at[1]);
    else
        str_printf(out, "\\%03o", c);
}

void text_quote(struct str *out, const char *prefix, const char *name)
{
    const char *at = name;

    while (*at && !is_quoted((unsigned char)*at))
        at++;
    if (!*at) {
        str_printf(out, "%s%s", prefix, name);
        return;
    }
    str_printf(out, "\"%s", prefix);
    for (at = name; *at; at++) {
        if (is_quoted((unsigned char)*at))
            put_quoted(out, (unsigned char)*at);
        else
            str_putc(out, *at);
    }
    str_putc(out, '"');
}
