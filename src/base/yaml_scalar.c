/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml_scalar.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define DIGITS "0123456789"

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++) {
        if (strcmp(text, *words) == 0)
            return true;
    }
    return false;
}

static bool is_all(const char *text, const char *set)
{
    return *text != '\0' && text[strspn(text, set)] == '\0';
}

static const char *skip_sign(const char *text)
{
    return *text == '-' || *text == '+' ? text + 1 : text;
}

static json_t *integer(const char *digits, int base)
{
    long long value;

    errno = 0;
    value = strtoll(digits, NULL, base);
    return errno ? NULL : json_integer(value);
}

/* [-+]? ( "." digits | digits [ "." digits? ] ) [ (e|E) [-+]? digits ] */
static bool is_float(const char *text)
{
    const char *at = skip_sign(text);
    size_t whole = strspn(at, DIGITS), part = 0;

    at += whole;
    if (*at == '.') {
        part = strspn(at + 1, DIGITS);
        at += 1 + part;
    }
    if (whole + part == 0)
        return false;
    return *at == '\0' ||
           ((*at == 'e' || *at == 'E') && is_all(skip_sign(at + 1), DIGITS));
}

/* Through jansson, which like JSON knows no locale. JSON wants digits on both
 * sides of the point, and no plus or zero before them. */
static json_t *real(const char *text)
{
    auto_str struct str s = { 0 };
    const char *at = skip_sign(text);
    size_t n;

    if (*text == '-')
        str_putc(&s, '-');
    at += strspn(at, "0");
    n = strspn(at, DIGITS);
    str_add(&s, n ? at : "0", n ? n : 1);
    at += n;
    if (*at == '.') {
        n = strspn(++at, DIGITS);
        str_putc(&s, '.');
        str_add(&s, n ? at : "0", n ? n : 1);
        at += n;
    } else {
        str_puts(&s, ".0"); /* "1e3" is a real here too */
    }
    str_puts(&s, at);
    return str_ok(&s) ? json_loadb(s.data, s.len, JSON_DECODE_ANY, NULL) : NULL;
}

json_t *yaml_scalar_plain(const char *text, size_t len)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
    static const char *const yes[] = { "true", "True", "TRUE", NULL };
    static const char *const no[] = { "false", "False", "FALSE", NULL };

    if (is_one_of(text, nulls))
        return json_null();
    if (is_one_of(text, yes))
        return json_true();
    if (is_one_of(text, no))
        return json_false();
    if (is_all(skip_sign(text), DIGITS))
        return integer(text, 10);
    if (str_starts(text, "0x") && is_all(text + 2, DIGITS "abcdefABCDEF"))
        return integer(text + 2, 16);
    if (str_starts(text, "0o") && is_all(text + 2, "01234567"))
        return integer(text + 2, 8);
    if (is_float(text))
        return real(text);
    return json_stringn(text, len);
}
