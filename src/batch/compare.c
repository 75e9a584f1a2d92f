/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/str.h"

#define TOLERANCE  1e-6
#define NUMBER_MAX 64 /* characters of a number */

struct span {
    const char *at;
    size_t len;
};

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

int compare_parse(const char *text, struct compare *out, struct vial_error *err)
{
    static const char *const names[] = { "exact", "lines", "tokens", "float", "lower" };
    char *end = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (struct compare){ (enum compare_mode)i, TOLERANCE };
            return 0;
        }
    if (str_starts(text, "float:")) {
        *out = (struct compare){ COMPARE_FLOAT, strtod(text + 6, &end) };
        if (end && end != text + 6 && !*end && out->tolerance >= 0 &&
            isfinite(out->tolerance))
            return 0;
    }
    (void)fail(err, VIAL_E_VALUE, "'%.64s' is no way to compare", text);
    return fail_remedy(err, "say exact, lines, tokens, float:1e-6 or lower");
}

static bool same_bytes(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static bool same_letters(struct span a, struct span b)
{
    for (size_t i = 0; i < a.len && a.len == b.len; i++)
        if (lower(a.at[i]) != lower(b.at[i]))
            return false;
    return a.len == b.len;
}

static bool number_of(struct span s, double *out)
{
    char text[NUMBER_MAX + 1];
    char *end;

    if (s.len == 0 || s.len > NUMBER_MAX)
        return false;
    memcpy(text, s.at, s.len);
    text[s.len] = '\0';
    *out = strtod(text, &end);
    return end == text + s.len;
}

static bool same_number(struct span a, struct span b, double tolerance)
{
    double x;
    double y;

    if (same_bytes(a, b))
        return true;
    if (!number_of(a, &x) || !number_of(b, &y) || !isfinite(x) || !isfinite(y))
        return false;
    return fabs(x - y) <= (fabs(y) > 1 ? tolerance * fabs(y) : tolerance);
}

/* Takes the next word from REST; one of no length: there is none. */
static struct span next_token(struct span *rest)
{
    struct span token;

    while (rest->len && is_space(*rest->at)) {
        rest->at++;
        rest->len--;
    }
    token = (struct span){ rest->at, 0 };
    while (token.len < rest->len && !is_space(token.at[token.len]))
        token.len++;
    rest->at += token.len;
    rest->len -= token.len;
    return token;
}

/* The next line without the space at its end; empty when there is none left. */
static struct span next_line(struct span *rest)
{
    const char *end = rest->len ? memchr(rest->at, '\n', rest->len) : NULL;
    struct span line = { rest->at, end ? (size_t)(end - rest->at) : rest->len };
    size_t taken = end ? line.len + 1 : line.len;

    rest->at += taken;
    rest->len -= taken;
    while (line.len && is_space(line.at[line.len - 1]))
        line.len--;
    return line;
}

static bool same_lines(struct span got, struct span want, bool letters)
{
    while (got.len || want.len) {
        struct span a = next_line(&got);
        struct span b = next_line(&want);

        if (!(letters ? same_letters(a, b) : same_bytes(a, b)))
            return false;
    }
    return true;
}

static bool same_tokens(struct span got, struct span want, const double *tolerance)
{
    struct span a;
    struct span b;

    do {
        a = next_token(&got);
        b = next_token(&want);
        if (!(tolerance ? same_number(a, b, *tolerance) : same_bytes(a, b)))
            return false;
    } while (a.len && b.len);
    return true;
}

bool compare_equal(const struct compare *c, const char *got, size_t got_len,
                   const char *want, size_t want_len)
{
    struct span a = { got, got_len };
    struct span b = { want, want_len };

    switch (c->mode) {
    case COMPARE_EXACT:
        return same_bytes(a, b);
    case COMPARE_LINES:
    case COMPARE_LOWER:
        return same_lines(a, b, c->mode == COMPARE_LOWER);
    case COMPARE_TOKENS:
        return same_tokens(a, b, NULL);
    case COMPARE_FLOAT:
        return same_tokens(a, b, &c->tolerance);
    }
    return false;
}
