/* SPDX-License-Identifier: Apache-2.0 */
#include "model/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/sha256.h"

#define USUAL_SHAPE "****************************************"
#define UPPER       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LOWER       "abcdefghijklmnopqrstuvwxyz"
#define DIGITS      "0123456789"
/* What a made-up character can be: 64 of them would hold two that some clients refuse.
 */
#define MADE_UP DIGITS UPPER LOWER

bool secret_is_token(const char *name, size_t len)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < len; i++)
        if (!name[i] || !strchr(DIGITS UPPER LOWER, name[i]))
            if (!name[i] || !strchr(others, name[i]))
                return false;
    return len > 0;
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

static bool is_variable(const char *name)
{
    size_t len = strspn(name, UPPER LOWER DIGITS "_");

    return len > 0 && len <= SECRET_NAME_MAX && !name[len] && !strchr(DIGITS, name[0]);
}

static bool is_source(const char *from)
{
    if (str_starts(from, "env:"))
        return is_variable(from + strlen("env:"));
    return str_starts(from, "file:/");
}

/* "GET /v1/models", "* /v1/chat/\*". */
static bool is_rule(const char *rule)
{
    size_t method = strcspn(rule, " ");
    const char *path = rule + method + 1;

    if (!rule[method] || path[0] != '/' || strchr(path, ' ') || !is_printable(path) ||
        strchr(path, '?') || strchr(path, '#'))
        return false;
    path = strchr(path, '*');
    return (method == 1 && rule[0] == '*') || secret_is_token(rule, method)
               ? !path || !path[1]
               : false;
}

/* Headers that say where a message ends, or whose it is, are not for anyone to add. */
static bool is_header(const char *header)
{
    static const char *const ours[] = { "host",       "content-length",
                                        "connection", "transfer-encoding",
                                        "upgrade",    "te",
                                        "trailer",    "accept-encoding",
                                        NULL };
    size_t len = strcspn(header, ":");

    if (!secret_is_token(header, len) || header[len] != ':' || header[len + 1] != ' ' ||
        !is_printable(header))
        return false;
    for (size_t i = 0; ours[i]; i++)
        if (strlen(ours[i]) == len && strncasecmp(ours[i], header, len) == 0)
            return false;
    return true;
}

static bool is_shape(const char *shape)
{
    size_t stars = 0;

    for (const char *c = shape; *c; c++)
        stars += *c == '*';
    return stars >= SECRET_STARS && strlen(shape) <= SECRET_SHAPE_MAX &&
           is_printable(shape) && !strpbrk(shape, " ,;\"\\");
}

static const char *read_host(const char *text, struct secret *s)
{
    struct name_rule *rule = &s->hosts[s->host_count];
    const char *wrong = NULL;

    if (s->host_count == SECRET_HOSTS)
        return "it has too many hosts";
    wrong = name_rule_parse(text, rule);
    if (wrong)
        return wrong;
    if (rule->wild && !rule->name[0])
        return "it may not go to every host";
    if (!rule->low)
        rule->low = rule->high = SECRET_PORT;
    s->host_count++;
    return NULL;
}

static const char *read_number(const char *text, uint64_t *out)
{
    char *end = NULL;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno || *end || !strchr(DIGITS, text[0]) || !*out ? "a size is not a number"
                                                              : NULL;
}

static const char *add(const char **list, size_t *count, size_t most, const char *text)
{
    if (*count == most)
        return "it has too many rules or headers";
    list[(*count)++] = text;
    return NULL;
}

static const char *set(const char **to, const char *text, bool good, const char *wrong)
{
    if (*to || !good)
        return wrong;
    *to = text;
    return NULL;
}

/* The value of LINE if it begins with WORD, or NULL. */
static const char *value_of(const char *line, const char *word)
{
    size_t len = strlen(word);

    return strncmp(line, word, len) == 0 && line[len] == ' ' && line[len + 1]
               ? line + len + 1
               : NULL;
}

static const char *read_amounts(const char *line, struct secret *s)
{
    const char *v = value_of(line, "request");

    if (v)
        return read_number(v, &s->max_request);
    v = value_of(line, "response");
    return v ? read_number(v, &s->max_response) : "a line is not known";
}

static const char *read_line(const char *line, struct secret *s)
{
    const char *v = NULL;

    if ((v = value_of(line, "from")))
        return set(&s->from, v, is_source(v),
                   "its source is not env:NAME or file:/PATH");
    if ((v = value_of(line, "host")))
        return read_host(v, s);
    if ((v = value_of(line, "only")))
        return is_rule(v) ? add(s->rules, &s->rule_count, SECRET_RULES, v)
                          : "a rule is not METHOD /PATH";
    if ((v = value_of(line, "header")))
        return is_header(v) ? add(s->headers, &s->header_count, SECRET_HEADERS, v)
                            : "a header is not one that can be added";
    if ((v = value_of(line, "ca")))
        return set(&s->ca, v, v[0] == '/', "its ca is not an absolute path");
    if ((v = value_of(line, "shape")))
        return set(&s->shape, v, is_shape(v),
                   "its shape has not 16 or more '*' among plain characters");
    if ((v = value_of(line, "placeholder")))
        return set(&s->placeholder, v,
                   strlen(v) >= SECRET_STARS && strlen(v) <= SECRET_SHAPE_MAX &&
                       is_printable(v) && !strchr(v, ' '),
                   "its placeholder is not one");
    return read_amounts(line, s);
}

const char *secret_read(char *const *lines, size_t count, size_t *at,
                        struct secret *out)
{
    const char *wrong = NULL;

    *out = (struct secret){ 0 };
    out->name = *at < count ? value_of(lines[*at], "secret") : NULL;
    if (!out->name || !is_variable(out->name))
        return "its name is not that of a variable";
    for (++*at; !wrong && *at < count && !value_of(lines[*at], "secret"); ++*at)
        wrong = strlen(lines[*at]) > SECRET_LINE ? "a value is too long"
                                                 : read_line(lines[*at], out);
    if (!wrong && !out->from)
        wrong = "it has no source";
    if (!wrong && !out->host_count)
        wrong = "it has no host";
    return wrong;
}

const char *secret_inline(const char *text, struct strv *out)
{
    const char *from = strchr(text, '=');
    const char *hosts = from ? strrchr(from, '@') : NULL;

    if (!hosts || !hosts[1])
        return "it is not NAME=SOURCE@HOST";
    strv_printf(out, "secret %.*s", (int)(from - text), text);
    strv_printf(out, "from %.*s", (int)(hosts - from - 1), from + 1);
    for (const char *host = hosts + 1; *host;) {
        size_t len = strcspn(host, ",");

        strv_printf(out, "host %.*s", (int)len, host);
        host += len + (host[len] == ',');
    }
    return NULL;
}

bool secret_find(const struct strv *all, const char *name, struct strv *out)
{
    bool inside = false, found = false;

    for (size_t i = 0; i < all->count; i++) {
        const char *begins = value_of(all->items[i], "secret");

        inside = begins ? strcmp(begins, name) == 0 : inside;
        found = found || inside;
        if (inside)
            strv_push(out, all->items[i]);
    }
    return found;
}

void secret_placeholder(const uint8_t seed[32], const char *name, const char *shape,
                        struct str *out)
{
    char digits[65] = "";
    size_t at = sizeof digits, round = 0;

    for (const char *c = shape ? shape : USUAL_SHAPE; *c; c++) {
        struct sha256 h;
        char two[3] = "";

        if (*c != '*') {
            str_putc(out, *c);
            continue;
        }
        if (at + 2 > 64) {
            sha256_init(&h);
            sha256_add(&h, seed, 32);
            sha256_add(&h, name, strlen(name));
            sha256_add(&h, &round, sizeof round);
            sha256_text(&h, digits);
            at = 0;
            round++;
        }
        memcpy(two, digits + at, 2);
        at += 2;
        str_putc(out, (MADE_UP)[strtoul(two, NULL, 16) % strlen(MADE_UP)]);
    }
}

bool secret_goes_to(const struct secret *secret, const char *name, uint16_t port)
{
    return name_rules_have(secret->hosts, secret->host_count, name, port);
}
