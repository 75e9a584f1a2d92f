/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/semver.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define ANY (-1L)

struct semver {
    long part[3];
};

static bool is_any(char c)
{
    return c == 'x' || c == 'X' || c == '*';
}

/* Missing parts are ANY. False: TEXT is none. */
static bool parse(const char *text, struct semver *out)
{
    *out = (struct semver){ { ANY, ANY, ANY } };
    text += *text == 'v';
    for (size_t i = 0; i < 3; i++) {
        char *end;

        if (is_any(*text)) {
            end = NULL;
            text++;
        } else if (isdigit((unsigned char)*text)) {
            out->part[i] = strtol(text, &end, 10);
            text = end;
        } else {
            return false;
        }
        if (*text == '\0')
            return true;
        if (*text++ != '.')
            return false;
    }
    return false;
}

static int compare(const struct semver *a, const struct semver *b)
{
    for (size_t i = 0; i < 3; i++) {
        long x = a->part[i] < 0 ? 0 : a->part[i];
        long y = b->part[i] < 0 ? 0 : b->part[i];

        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

int semver_compare(const char *a, const char *b)
{
    struct semver x, y;

    if (!parse(a, &x) || !parse(b, &y))
        return strcmp(a, b);
    return compare(&x, &y);
}

/* The first COUNT parts, as far as RANGE has them. */
static bool begins(const struct semver *range, const struct semver *v, size_t count)
{
    for (size_t i = 0; i < count && range->part[i] != ANY; i++)
        if (range->part[i] != v->part[i])
            return false;
    return true;
}

static bool fits(const char *operator, const struct semver * range,
                 const struct semver *v)
{
    int order = compare(v, range);

    if (strcmp(operator, "^") == 0)
        return order >= 0 && begins(range, v, range->part[0] == 0 ? 2 : 1);
    if (strcmp(operator, "~") == 0)
        return order >= 0 && begins(range, v, 2);
    if (strcmp(operator, ">=") == 0)
        return order >= 0;
    if (strcmp(operator, "<=") == 0)
        return order <= 0 || begins(range, v, 3);
    if (strcmp(operator, ">") == 0)
        return order > 0 && !begins(range, v, 3);
    if (strcmp(operator, "<") == 0)
        return order < 0;
    return begins(range, v, 3);
}

bool semver_fits(const char *range, const char *version)
{
    char operator[3] = "";
    size_t len = strspn(range, "^~<>=");
    struct semver wanted, there;

    if (len > 2 || !parse(version, &there))
        return false;
    memcpy(operator, range, len);
    range += len;
    range += strspn(range, " ");
    return parse(range, &wanted) && fits(operator, & wanted, &there);
}
