/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "secrets/secrets.h"

/* Pseudo-header fields, each at most once and before all others. */
static const char *const pseudo_names[] = { ":method", ":path", ":authority", ":scheme",
                                            ":status" };

void told_head_clear(struct told_head *t)
{
    for (size_t i = 0; i < PSEUDO_COUNT; i++)
        str_done(&t->pseudo[i]);
    str_done(&t->fields);
    *t = (struct told_head){ 0 };
}

static bool add_pseudo(struct told_head *t, const char *name, size_t name_len,
                       const char *value, size_t len)
{
    for (size_t i = 0; i < PSEUDO_COUNT; i++) {
        if (strlen(pseudo_names[i]) != name_len ||
            memcmp(pseudo_names[i], name, name_len) != 0)
            continue;
        if (t->pseudo[i].len || !len || t->count)
            return false;
        for (size_t k = 0; k < len; k++)
            if (value[k] <= ' ' || value[k] > '~')
                return false;
        str_add(&t->pseudo[i], value, len);
        return true;
    }
    return false;
}

static bool is_name(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (name[i] >= 'A' && name[i] <= 'Z')
            return false;
    return secret_is_token(name, len);
}

static bool is_one(const char *name, size_t len, const char *other)
{
    return len == strlen(other) && memcmp(name, other, len) == 0;
}

/* What says where a message of HTTP/1.1 ends, or leads elsewhere, has no place here. */
static bool is_foreign(const char *name, size_t len)
{
    return is_one(name, len, "connection") || is_one(name, len, "keep-alive") ||
           is_one(name, len, "proxy-connection") || is_one(name, len, "upgrade") ||
           is_one(name, len, "transfer-encoding") ||
           is_one(name, len, "http2-settings");
}

static bool add_field(struct told_head *t, const char *name, size_t name_len,
                      const char *value, size_t len)
{
    const struct str *authority = &t->pseudo[PSEUDO_AUTHORITY];

    t->count++;
    if (!is_name(name, name_len) || !head_is_value(value, len) ||
        is_foreign(name, name_len))
        return false;
    if (is_one(name, name_len, "te")) {
        t->wants_trailers = is_one(value, len, "trailers");
        return t->wants_trailers;
    }
    if (is_one(name, name_len, "host") && authority->len == len &&
        strncasecmp(authority->data, value, len) == 0)
        return true; /* said twice, and the same */
    t->has_length = t->has_length || is_one(name, name_len, "content-length");
    str_add(&t->fields, name, name_len);
    str_puts(&t->fields, ": ");
    str_add(&t->fields, value, len);
    str_puts(&t->fields, "\r\n");
    return true;
}

void told_head_add(struct told_head *t, const void *name, size_t name_len,
                   const void *value, size_t len)
{
    bool pseudo = name_len && *(const char *)name == ':';

    t->size += name_len + len + 4;
    t->large = t->large || t->size > HEAD_MAX - 1024 || t->count == HEAD_FIELDS - 4;
    if (t->bad || t->large)
        return;
    t->bad = !(pseudo ? add_pseudo : add_field)(t, name, name_len, value, len);
}

static bool write_fields(struct told_head *t, bool ends, struct str *out)
{
    if (t->fields.len)
        str_add(out, t->fields.data, t->fields.len);
    if (!ends && !t->has_length)
        str_puts(out, "transfer-encoding: chunked\r\n");
    str_puts(out, "\r\n");
    return str_ok(out) && str_ok(&t->fields) && !t->bad && !t->large;
}

bool told_head_request(struct told_head *t, bool ends, struct str *out,
                       struct refusal *wrong)
{
    const struct str *p = t->pseudo;

    *wrong = (struct refusal){ 400, "the request's head is not HTTP/2", GATE_REQUEST };
    if (t->large)
        *wrong =
            (struct refusal){ 431, "the request's head is too large", GATE_REQUEST };
    if (!p[PSEUDO_METHOD].len || !p[PSEUDO_PATH].len || p[PSEUDO_STATUS].len ||
        !p[PSEUDO_SCHEME].len || strcmp(p[PSEUDO_SCHEME].data, "https") != 0)
        return false;
    str_printf(out, "%s %s HTTP/1.1\r\n", p[PSEUDO_METHOD].data, p[PSEUDO_PATH].data);
    if (p[PSEUDO_AUTHORITY].len)
        str_printf(out, "host: %s\r\n", p[PSEUDO_AUTHORITY].data);
    return write_fields(t, ends, out);
}

bool told_head_answer(struct told_head *t, bool ends, struct str *out)
{
    const struct str *p = t->pseudo;

    for (size_t i = 0; i < PSEUDO_COUNT; i++)
        if ((p[i].len != 0) != (i == PSEUDO_STATUS))
            return false;
    str_printf(out, "HTTP/1.1 %s \r\n", p[PSEUDO_STATUS].data);
    return write_fields(t, ends, out);
}

bool told_head_trailers(struct told_head *t, struct str *out)
{
    for (size_t i = 0; i < PSEUDO_COUNT; i++)
        if (t->pseudo[i].len)
            return false;
    str_puts(out, "HTTP/1.1 200 \r\n");
    return write_fields(t, true, out);
}

void pairs_add(struct pairs *p, const char *name, const char *value, bool secret)
{
    if (p->count == PAIRS_MOST)
        p->full = true;
    else
        p->all[p->count++] = (struct pair){ name, value, secret };
}

/* Names are lower case in HTTP/2. */
static void put_pair(struct head *h, const struct head_field *f,
                     const struct scrub *scrub, struct pairs *out)
{
    char *name = h->text + (f->name - h->text);

    for (char *at = name; *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at + 32);
    pairs_add(out, name, f->value, scrub && scrub_finds(scrub, f->value, f->value_len));
}

bool pairs_of_request(struct head *h, const struct scrub *scrub, bool wants_trailers,
                      struct pairs *out)
{
    char *path = strchr(h->text, ' ');
    char *version = path ? strchr(path + 1, ' ') : NULL;
    bool twice = false;
    const struct head_field *host = head_find(h, "host", &twice);

    if (!version || !host || twice)
        return false;
    *path++ = *version = '\0';
    *out = (struct pairs){ 0 };
    pairs_add(out, ":method", h->first, false);
    pairs_add(out, ":scheme", "https", false);
    pairs_add(out, ":path", path, false);
    pairs_add(out, ":authority", host->value, false);
    for (size_t i = 0; i < h->count; i++) {
        const struct head_field *f = &h->fields[i];

        if (f != host && (!head_is_hop(h, f) || head_is(f, "content-length")))
            put_pair(h, f, scrub, out);
    }
    if (wants_trailers)
        pairs_add(out, "te", "trailers", false);
    return !out->full;
}

static bool put_answer(struct head *h, bool length, struct pairs *out)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct head_field *f = &h->fields[i];

        if (!head_is_hop(h, f) || (length && head_is(f, "content-length")))
            put_pair(h, f, NULL, out);
    }
    return !out->full;
}

bool pairs_of_answer(struct head *h, struct pairs *out)
{
    char *status = strchr(h->text, ' ');

    if (!status || strlen(status) < 4)
        return false;
    status[4] = '\0';
    *out = (struct pairs){ 0 };
    pairs_add(out, ":status", status + 1, false);
    return put_answer(h, true, out);
}

bool pairs_of_trailers(struct head *h, struct pairs *out)
{
    *out = (struct pairs){ 0 };
    return put_answer(h, false, out);
}
