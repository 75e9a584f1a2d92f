/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"

#define WORD_MAX 48 /* longer words get no suggestion: the work is quadratic */

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

/* How far NAME is from WORD; an abbreviation is at the edge of LIMIT. */
static unsigned rate(const char *word, const char *name, unsigned limit)
{
    size_t len = strlen(word), name_len = strlen(name);
    unsigned d = limit + 1;

    if (name_len <= WORD_MAX)
        d = distance(word, len, name, name_len);
    if (d > limit && len >= 3 && str_starts(name, word))
        return limit;
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
