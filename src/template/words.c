/* SPDX-License-Identifier: Apache-2.0 */
#include "template/words.h"

#include <ctype.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
#define WORDS_BYTES  ((size_t)256 << 10) /* of what variables make of a text */

struct scan {
    const char *at;
    const struct strv *variables;
    struct str word;
    bool begun; /* a word has begun, which may be empty: "" */
    struct vial_error *err;
};

const char *words_lookup(const struct strv *variables, const char *name, size_t len)
{
    for (size_t i = 0; variables && i < variables->count; i++)
        if (strncmp(variables->items[i], name, len) == 0 &&
            variables->items[i][len] == '=')
            return variables->items[i] + len + 1;
    return NULL;
}

bool words_is_name(const char *text, size_t len)
{
    return len > 0 && !(text[0] >= '0' && text[0] <= '9') &&
           strspn(text, NAME_LETTERS) >= len;
}

static int refuse(const struct scan *s, const char *why)
{
    return fail(s->err, VIAL_E_TEMPLATE, "%s", why);
}

/* "${NAME}", "${NAME:-other}", "${NAME:+other}"; AT stands behind the brace. */
static int take_braces(struct scan *s)
{
    size_t len = strspn(s->at, NAME_LETTERS);
    const char *value = words_lookup(s->variables, s->at, len);
    const char *rest = s->at + len;
    const char *end = strchr(rest, '}');
    bool set = value && *value;

    if (len == 0 || !end)
        return refuse(s, "'${' without a name and '}'");
    s->at = end + 1;
    if (rest == end) {
        str_puts(&s->word, value ? value : "");
        return 0;
    }
    if (rest[0] != ':' || (rest[1] != '-' && rest[1] != '+'))
        return refuse(s, "'${' knows ':-' and ':+' alone");
    if (rest[1] == '-' && set)
        str_puts(&s->word, value);
    else if ((rest[1] == '+') == set)
        str_add(&s->word, rest + 2, (size_t)(end - rest - 2));
    return 0;
}

/* AT stands behind the dollar. */
static int take_variable(struct scan *s)
{
    size_t len = strspn(s->at, NAME_LETTERS);
    const char *value;

    if (*s->at == '{') {
        s->at++;
        return take_braces(s);
    }
    if (len == 0) {
        str_putc(&s->word, '$');
        return 0;
    }
    value = words_lookup(s->variables, s->at, len);
    str_puts(&s->word, value ? value : "");
    s->at += len;
    return 0;
}

static int take_single(struct scan *s)
{
    size_t len = strcspn(s->at, "'");

    if (!s->at[len])
        return refuse(s, "a quote is not closed");
    str_add(&s->word, s->at, len);
    s->at += len + 1;
    return 0;
}

static int take_double(struct scan *s)
{
    while (*s->at && *s->at != '"') {
        char c = *s->at++;

        if (c == '$') {
            if (take_variable(s) < 0)
                return -1;
        } else if (c == '\\' && *s->at && strchr("\"\\$", *s->at)) {
            str_putc(&s->word, *s->at++);
        } else {
            str_putc(&s->word, c);
        }
    }
    if (!*s->at)
        return refuse(s, "a quote is not closed");
    s->at++;
    return 0;
}

static int take_one(struct scan *s)
{
    char c = *s->at++;

    s->begun = true;
    if (s->word.len > WORDS_BYTES)
        return refuse(s, "its variables make more than 256 KiB of it");
    if (c == '\'')
        return take_single(s);
    if (c == '"')
        return take_double(s);
    if (c == '$')
        return take_variable(s);
    if (c == '\\' && *s->at)
        c = *s->at++;
    str_putc(&s->word, c);
    return 0;
}

static void end_word(struct scan *s, struct strv *out)
{
    if (s->begun)
        strv_push(out, s->word.data ? s->word.data : "");
    out->failed = out->failed || s->word.failed;
    str_done(&s->word);
    s->word = (struct str){ 0 };
    s->begun = false;
}

int words_split(const char *text, const struct strv *variables, struct strv *out,
                struct vial_error *err)
{
    struct scan s = { .at = text, .variables = variables, .err = err };
    int rc = 0;

    while (rc == 0 && *s.at) {
        if (isspace((unsigned char)*s.at)) {
            end_word(&s, out);
            s.at++;
        } else {
            rc = take_one(&s);
        }
    }
    end_word(&s, out);
    if (rc < 0)
        return -1;
    return out->failed ? fail_memory(err) : 0;
}

char *words_expand(const char *text, const struct strv *variables,
                   struct vial_error *err)
{
    struct scan s = { .at = text, .variables = variables, .err = err };
    char *whole = NULL;
    int rc = 0;

    while (rc == 0 && *s.at)
        rc = take_one(&s);
    whole = rc < 0 ? NULL : str_take(&s.word);
    if (rc == 0 && !whole)
        (void)fail_memory(err);
    str_done(&s.word);
    return whole;
}

void words_quote(struct str *out, const char *text)
{
    str_putc(out, '"');
    for (; *text; text++) {
        if (strchr("\"\\$", *text))
            str_putc(out, '\\');
        str_putc(out, *text);
    }
    str_putc(out, '"');
}
