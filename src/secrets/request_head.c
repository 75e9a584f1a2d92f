/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "secrets/secrets.h"

struct line { /* "GET /path?query HTTP/1.1" */
    const char *method, *target;
    size_t method_len, target_len, path_len; /* without the query */
};

static bool refuse(struct refusal *wrong, int status, const char *why)
{
    *wrong = (struct refusal){ status, why, GATE_REQUEST };
    return false;
}

static bool read_line(const char *first, struct line *out, struct refusal *wrong)
{
    const char *target = strchr(first, ' ');
    const char *version = target ? strchr(target + 1, ' ') : NULL;

    if (strcmp(first, "PRI * HTTP/2.0") == 0)
        return refuse(wrong, 505, "HTTP/2 was not agreed on in TLS (ALPN)");
    if (!version || strcmp(version + 1, "HTTP/1.1") != 0)
        return refuse(wrong, 400, "the request is not HTTP/1.1");
    *out = (struct line){ .method = first,
                          .target = target + 1,
                          .method_len = (size_t)(target - first),
                          .target_len = (size_t)(version - target - 1) };
    out->path_len = strcspn(out->target, "? ");
    for (size_t i = 0; i < out->target_len; i++)
        if (out->target[i] <= ' ' || out->target[i] > '~' || out->target[i] == '#')
            return refuse(wrong, 400, "the request's target is not a path");
    if (!secret_is_token(first, out->method_len) || out->target[0] != '/')
        return refuse(wrong, 400, "the request's target is not a path");
    if (strncmp(first, "CONNECT ", 8) == 0 || strncmp(first, "TRACE ", 6) == 0)
        return refuse(wrong, 405, "that method would give headers away");
    return true;
}

static bool is_host(const char *value, struct place to)
{
    char with_port[NAME_LEN_MAX + 8];

    (void)snprintf(with_port, sizeof with_port, "%s:%u", to.name, to.port);
    return weaken("secret_host") || strcasecmp(value, with_port) == 0 ||
           (to.port == SECRET_PORT && strcasecmp(value, to.name) == 0);
}

/* A path that servers may read as another one is none for a rule to judge. */
static bool is_plain(const struct line *l)
{
    for (size_t i = 0; i < l->path_len; i++) {
        const char *at = l->target + i;

        if (*at == '\\' || *at == ';' || strncmp(at, "//", 2) == 0 ||
            strncmp(at, "/.", 2) == 0 || strncasecmp(at, "%2e", 3) == 0 ||
            strncasecmp(at, "%2f", 3) == 0 || strncasecmp(at, "%5c", 3) == 0 ||
            strncasecmp(at, "%00", 3) == 0)
            return false;
    }
    return true;
}

static bool fits(const char *rule, const struct line *l)
{
    size_t method = strcspn(rule, " ");
    const char *path = rule + method + 1;
    size_t len = strlen(path);

    if (rule[0] != '*' &&
        (method != l->method_len || strncmp(rule, l->method, method) != 0))
        return false;
    if (path[len - 1] == '*')
        return l->path_len >= len - 1 && strncmp(path, l->target, len - 1) == 0;
    return l->path_len == len && strncmp(path, l->target, len) == 0;
}

/* What some servers take in the place of the line's own method and path. */
static bool means_another(const struct head *h)
{
    static const char *const names[] = { "X-HTTP-Method-Override", "X-HTTP-Method",
                                         "X-Method-Override",      "X-Original-Method",
                                         "X-Original-URL",         "X-Rewrite-URL" };
    bool twice;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (head_find(h, names[i], &twice))
            return true;
    return false;
}

static bool may_ask(const struct held *held, struct place to, const struct head *h,
                    const struct line *l)
{
    for (size_t i = 0; i < held->count; i++) {
        const struct secret *s = &held->all[i].secret;
        bool good = !s->rule_count || weaken("secret_rules");

        if (!secret_goes_to(s, to.name, to.port))
            continue;
        for (size_t k = 0; !good && k < s->rule_count; k++)
            good = fits(s->rules[k], l) && is_plain(l) && !means_another(h);
        if (!good)
            return false;
    }
    return true;
}

static uint64_t most_of(const struct held *held, struct place to)
{
    uint64_t most = 0;

    for (size_t i = 0; i < held->count; i++) {
        uint64_t one = held->all[i].secret.max_request;

        if (one && secret_goes_to(&held->all[i].secret, to.name, to.port))
            most = !most || one < most ? one : most;
    }
    return most;
}

/* Appends VALUE with each placeholder of a secret for this place as its value. True:
 * there was one. */
static bool put_values(const struct held *held, struct place to, const char *value,
                       struct str *out)
{
    bool any = false;

    while (*value) {
        size_t len = 1;
        const char *put = value;

        for (size_t i = 0; i < held->count; i++) {
            const struct held_secret *h = &held->all[i];
            size_t n = strlen(h->secret.placeholder);

            if (strncmp(value, h->secret.placeholder, n) != 0 ||
                !secret_goes_to(&h->secret, to.name, to.port))
                continue;
            len = n;
            put = h->value;
            any = true;
            break;
        }
        str_add(out, put, put == value ? 1 : strlen(put));
        value += len;
    }
    return any;
}

/* "Basic " and base64 of USER:PASSWORD, either of which may have a placeholder. False:
 * it has none, or is something else. */
static bool put_basic(const struct held *held, struct place to, const char *value,
                      struct scrub *scrub, struct str *out)
{
    auto_str struct str plain = { 0 }, with = { 0 };
    gnutls_datum_t text = { (unsigned char *)(uintptr_t)(value + 6), 0 };
    gnutls_datum_t raw = { 0 }, coded = { 0 };
    bool good = false;

    if (strncasecmp(value, "Basic ", 6) != 0)
        return false;
    text.size = (unsigned)strlen(value + 6);
    if (gnutls_base64_decode2(&text, &raw) < 0)
        return false;
    str_add(&plain, raw.data, raw.size);
    gnutls_free(raw.data);
    if (!str_ok(&plain) || !plain.len || strlen(plain.data) != plain.len ||
        !put_values(held, to, plain.data, &with) || !str_ok(&with))
        return false;
    raw = (gnutls_datum_t){ (unsigned char *)with.data, (unsigned)with.len };
    if (gnutls_base64_encode2(&raw, &coded) < 0)
        return false;
    good = scrub_learn(scrub, (char *)coded.data, coded.size);
    if (good) {
        str_puts(out, "Basic ");
        str_add(out, coded.data, coded.size);
    }
    gnutls_memset(coded.data, 0, coded.size);
    gnutls_free(coded.data);
    gnutls_memset(with.data, 0, with.len);
    return good;
}

/* What goes to the host otherwise, or not at all: answers must be readable as they
 * come, and whole. */
static bool is_dropped(const struct head *h, const struct head_field *f)
{
    return head_is_hop(h, f) || head_is(f, "Accept-Encoding") || head_is(f, "Range") ||
           head_is(f, "If-Range") || head_is(f, "Host") ||
           head_is(f, "Grpc-Accept-Encoding");
}

static bool is_added(const struct held *held, struct place to,
                     const struct head_field *f)
{
    for (size_t i = 0; i < held->count; i++) {
        const struct secret *s = &held->all[i].secret;

        for (size_t k = 0; k < s->header_count; k++)
            if (strncasecmp(s->headers[k], f->name, f->name_len) == 0 &&
                s->headers[k][f->name_len] == ':' &&
                secret_goes_to(s, to.name, to.port))
                return true;
    }
    return false;
}

static void put_fields(const struct held *held, struct place to, const struct head *h,
                       struct scrub *scrub, struct str *out)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct head_field *f = &h->fields[i];

        if (is_dropped(h, f) || is_added(held, to, f))
            continue;
        str_printf(out, "%s: ", f->name);
        if (!head_is(f, "Authorization") || !put_basic(held, to, f->value, scrub, out))
            (void)put_values(held, to, f->value, out);
        str_puts(out, "\r\n");
    }
    for (size_t i = 0; i < held->count; i++)
        if (secret_goes_to(&held->all[i].secret, to.name, to.port))
            for (size_t k = 0; k < held->all[i].secret.header_count; k++)
                str_printf(out, "%s\r\n", held->all[i].secret.headers[k]);
}

bool request_head_pass(const struct held *held, struct place to, const struct head *h,
                       struct body *body, struct scrub *scrub, struct str *out,
                       struct refusal *wrong)
{
    bool twice = false;
    const struct head_field *host = head_find(h, "Host", &twice);
    struct line l;

    if (!read_line(h->first, &l, wrong))
        return false;
    if (!host || twice || !is_host(host->value, to))
        return refuse(wrong, 421, "the request's Host is not the name of this host");
    *body = (struct body){ .most = most_of(held, to) };
    if (!body_of(h, body))
        return refuse(wrong, 400, "the request does not say plainly where it ends");
    if (!may_ask(held, to, h, &l))
        return refuse(wrong, 403, "the secret's rules do not allow this request");
    if (body->most && body->left > body->most)
        return refuse(wrong, 413,
                      "the request is larger than the secret's rules allow");
    str_printf(out, "%s\r\nHost: %s\r\nAccept-Encoding: identity\r\n", h->first,
               host->value);
    put_fields(held, to, h, scrub, out);
    if (body->kind == BODY_CHUNKED)
        str_puts(out, "Transfer-Encoding: chunked\r\n");
    else if (body->kind == BODY_LENGTH)
        str_printf(out, "Content-Length: %llu\r\n", (unsigned long long)body->left);
    str_puts(out, "Connection: keep-alive\r\n\r\n");
    return str_ok(out) && out->len <= HEAD_NEW_MAX
               ? true
               : refuse(wrong, 431, "the request's head is too large");
}
