/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "audit/audit.h"

#define GONE "[redacted]"

/* Words in a name whose value is secret: "DB_PASSWORD=…", "apiKey: …". */
static const char *const names[] = { "password",   "passwd",      "passphrase",
                                     "secret",     "token",       "api_key",
                                     "apikey",     "api-key",     "access_key",
                                     "auth_key",   "private_key", "credential",
                                     "session_key" };

/* How keys of well-known services begin; at least MIN more characters follow. */
static const struct {
    const char *start;
    size_t min;
} starts[] = {
    { "sk-", 16 },   { "ghp_", 20 },  { "gho_", 20 },        { "ghs_", 20 },
    { "ghu_", 20 },  { "ghr_", 20 },  { "github_pat_", 20 }, { "glpat-", 16 },
    { "xoxb-", 10 }, { "xoxp-", 10 }, { "AKIA", 16 },        { "ASIA", 16 },
    { "AIza", 30 },  { "e2b_", 20 },  { "npm_", 20 },        { "hf_", 20 },
    { "eyJ", 40 },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct text {
    const char *at;
    size_t left;
};

static bool is_key_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool is_value_char(char c)
{
    return (unsigned char)c > ' ' && !strchr("\"'`,;&|<>(){}[]\\", c);
}

static size_t span(struct text t, bool (*fits)(char c))
{
    size_t n = 0;

    while (n < t.left && fits(t.at[n]))
        n++;
    return n;
}

static bool has_prefix(struct text t, const char *prefix)
{
    size_t len = strlen(prefix);

    return t.left >= len && strncasecmp(t.at, prefix, len) == 0;
}

static struct text after(struct text t, size_t n)
{
    return (struct text){ t.at + n, t.left - n };
}

static bool secret_name(const char *name, size_t len)
{
    for (size_t i = 0; i < COUNT(names); i++) {
        size_t need = strlen(names[i]);

        for (size_t at = 0; at + need <= len; at++)
            if (strncasecmp(name + at, names[i], need) == 0)
                return true;
    }
    return false;
}

/* A key of a service: how long it is, or 0. */
static size_t service_key(struct text t)
{
    for (size_t i = 0; i < COUNT(starts); i++) {
        size_t len = strlen(starts[i].start);
        size_t rest;

        if (t.left < len || memcmp(t.at, starts[i].start, len) != 0)
            continue;
        rest = span(after(t, len), is_key_char);
        if (rest >= starts[i].min)
            return len + rest;
    }
    return 0;
}

/* "-----BEGIN … PRIVATE KEY-----" up to its end, or to the end of all. */
static size_t private_key(struct text t)
{
    static const char end[] = "-----END";
    size_t line;
    const char *stop;

    if (!has_prefix(t, "-----BEGIN "))
        return 0;
    stop = memchr(t.at, '\n', t.left);
    line = stop ? (size_t)(stop - t.at) : t.left;
    if (!memmem(t.at, line, "PRIVATE KEY", 11))
        return 0;
    stop = memmem(t.at, t.left, end, sizeof(end) - 1);
    return stop ? (size_t)(stop - t.at) : t.left;
}

/* "://user:password@": what to keep before the password, and its length. */
static size_t url_password(struct text t, size_t *skip)
{
    size_t user;
    size_t value;

    if (!has_prefix(t, "://"))
        return 0;
    user = strcspn(t.at + 3, ":/@ \t\n\"'");
    if (3 + user >= t.left || t.at[3 + user] != ':')
        return 0;
    *skip = 3 + user + 1;
    value = strcspn(t.at + *skip, "@/ \t\n\"'");
    return *skip + value < t.left && t.at[*skip + value] == '@' ? value : 0;
}

/* "NAME = 'VALUE'", "name": "value", --name value. */
static size_t named_value(struct text t, size_t name, size_t *skip)
{
    struct text rest = after(t, name);
    size_t n = 0;
    bool sign = false;

    while (n < rest.left && strchr("\"' \t:=", rest.at[n]) && rest.at[n]) {
        sign = sign || rest.at[n] == ':' || rest.at[n] == '=';
        n++;
    }
    if (!sign && !(n > 0 && name > 2 && t.at[0] == '-'))
        return 0;
    *skip = name + n;
    return span(after(rest, n), is_value_char);
}

static size_t bearer(struct text t, size_t *skip)
{
    static const char *const words[] = { "bearer ", "basic " };

    for (size_t i = 0; i < COUNT(words); i++)
        if (has_prefix(t, words[i])) {
            size_t len = span(after(t, strlen(words[i])), is_value_char);

            *skip = strlen(words[i]);
            return len >= 8 ? len : 0;
        }
    return 0;
}

/* Gives the length of the secret that begins at T, 0: none, and in *SKIP how many bytes
 * before it are kept. */
static size_t secret_at(struct text t, bool word, size_t *skip)
{
    size_t len;
    size_t name;

    *skip = 0;
    if ((len = private_key(t)) || (len = url_password(t, skip)))
        return len;
    *skip = 0;
    if (!word)
        return 0;
    if ((len = service_key(t)) || (len = bearer(t, skip)))
        return len;
    name = span(t, is_key_char);
    if (name && secret_name(t.at, name))
        return named_value(t, name, skip);
    return 0;
}

void audit_redact(struct str *out, const char *text, size_t len)
{
    auto_free char *copy = strndup(text, len); /* strcspn needs an end */
    struct text t = { copy, copy ? strlen(copy) : 0 };
    bool word = true;

    if (!copy) {
        out->failed = true;
        return;
    }
    while (t.left > 0) {
        size_t skip;
        size_t secret = secret_at(t, word, &skip);

        if (secret) {
            str_add(out, t.at, skip);
            str_puts(out, GONE);
            t = after(t, skip + secret);
            word = false;
            continue;
        }
        word = !is_key_char(*t.at);
        str_putc(out, *t.at);
        t = after(t, 1);
    }
}
