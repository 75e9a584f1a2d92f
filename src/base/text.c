/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define WORD_MAX 48 /* longer words get no suggestion: the work is quadratic */

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

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void text_shell(struct str *out, const char *text)
{
    str_putc(out, '\'');
    for (; *text; text++)
        if (*text == '\'')
            str_puts(out, "'\\''");
        else
            str_putc(out, *text);
    str_putc(out, '\'');
}

void text_base64(struct str *out, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t bits = (uint32_t)p[i] << 16;
        char quad[4] = { 0, 0, '=', '=' };

        if (n > 1)
            bits |= (uint32_t)p[i + 1] << 8;
        if (n > 2)
            bits |= p[i + 2];
        for (size_t k = 0; k <= n; k++)
            quad[k] = alphabet[bits >> (18 - 6 * k) & 63];
        str_add(out, quad, 4);
    }
    if (len == 0)
        str_add(out, "", 0);
}

static int digit(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;

    return at ? (int)(at - alphabet) : -1;
}

/* Decodes four characters that stand for N bytes; bits beyond them must be 0. */
static int decode_quad(const char *quad, size_t n, char *out)
{
    uint32_t bits = 0;

    for (size_t k = 0; k < 4; k++) {
        int d = k <= n ? digit(quad[k]) : 0;

        if (d < 0)
            return -1;
        bits = bits << 6 | (uint32_t)d;
    }
    for (size_t k = 0; k < n; k++)
        out[k] = (char)(bits >> (16 - 8 * k) & 0xFF);
    return bits & (0xFFFFFFu >> (8 * n)) ? -1 : 0;
}

int text_unhex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int text_unbase64(const char *text, size_t len, struct blob *out)
{
    auto_free char *data = NULL;
    size_t pad = 0, got = 0;

    if (len % 4 != 0)
        return -1;
    if (len > 0)
        pad = text[len - 1] != '=' ? 0 : text[len - 2] != '=' ? 1 : 2;
    data = malloc(len / 4 * 3 + 1);
    if (!data)
        return -1;
    for (size_t i = 0; i < len; i += 4) {
        size_t n = i + 4 == len ? 3 - pad : 3;

        if (decode_quad(text + i, n, data + got) < 0)
            return -1;
        got += n;
    }
    data[got] = '\0';
    blob_done(out);
    out->data = ptr_take(&data);
    out->len = got;
    return 0;
}

/* Names differ in case or in the choice of dash without being other names. */
static char fold(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    if (c == '-')
        return '_';
    return c;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;

    return m < c ? m : c;
}

/* Insertions, deletions, substitutions and swaps of neighbours from A to B. */
static unsigned distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][WORD_MAX + 1];

    for (unsigned j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a_len; i++) {
        unsigned *now = rows[i % 3];
        const unsigned *before = rows[(i + 2) % 3], *before2 = rows[(i + 1) % 3];

        now[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            char x = fold(a[i - 1]), y = fold(b[j - 1]);

            now[j] = least(before[j] + 1, now[j - 1] + 1, before[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == fold(b[j - 2]) && fold(a[i - 2]) == y)
                now[j] = least(now[j], before2[j - 2] + 1, now[j]);
        }
    }
    return rows[a_len % 3][b_len];
}

/* How far NAME is from WORD; an abbreviation is one step away. */
static unsigned rate(const char *word, const char *name, unsigned limit)
{
    size_t len = strlen(word), name_len = strlen(name);
    unsigned d = limit + 1;

    if (name_len <= WORD_MAX)
        d = distance(word, len, name, name_len);
    if (d > 1 && len >= 3 && str_starts(name, word))
        return 1;
    return d < name_len ? d : limit + 1; /* nothing in common */
}

const char *text_suggest(const char *word, const char *const *names)
{
    size_t len = strlen(word);
    unsigned limit = len <= 3 ? 1 : len <= 7 ? 2 : 3;
    unsigned best_rate = limit + 1;
    const char *best = NULL;

    if (len == 0 || len > WORD_MAX)
        return NULL;
    for (; *names; names++) {
        unsigned d = rate(word, *names, limit);

        if (d < best_rate) {
            best = *names;
            best_rate = d;
        }
    }
    return best;
}
