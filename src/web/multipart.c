/* SPDX-License-Identifier: Apache-2.0 */
#include "web/multipart.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The value of parameter NAME in "…; NAME=VALUE; …"; quoted or not. False: none, or it
 * is longer than OUT. */
static bool parameter(const char *text, size_t len, const char *name, char *out,
                      size_t size)
{
    const char *end = text + len;
    size_t name_len = strlen(name);
    size_t n = 0;

    for (const char *at = memchr(text, ';', len); at;
         at = memchr(at, ';', (size_t)(end - at))) {
        at++;
        while (at < end && *at == ' ')
            at++;
        if ((size_t)(end - at) <= name_len || strncasecmp(at, name, name_len) != 0 ||
            at[name_len] != '=')
            continue;
        at += name_len + 1;
        if (at < end && *at == '"') {
            for (at++; at < end && *at != '"' && n + 1 < size; at++)
                out[n++] = *at;
        } else {
            for (; at < end && *at != ';' && *at != ' ' && n + 1 < size; at++)
                out[n++] = *at;
        }
        out[n] = '\0';
        return n + 1 < size;
    }
    return false;
}

/* False: TYPE is of no form, or has no boundary. */
static bool read_boundary(const char *type, char given[72])
{
    static const char kind[] = "multipart/form-data";

    return strncasecmp(type, kind, sizeof(kind) - 1) == 0 &&
           parameter(type, strlen(type), "boundary", given, 72) && *given;
}

bool multipart_begin(struct multipart *m, const char *type, const char *body,
                     size_t len)
{
    char given[72];

    *m = (struct multipart){ .at = body, .end = body + len };
    if (!read_boundary(type, given))
        return false;
    (void)snprintf(m->boundary, sizeof(m->boundary), "--%s", given);
    m->at = memmem(body, len, m->boundary, strlen(m->boundary));
    if (!m->at)
        return false;
    m->at += strlen(m->boundary);
    return true;
}

/* What browsers and libraries write for a quote and line ends in a name. */
static void unescape(char *text)
{
    static const struct {
        const char *code;
        char is;
    } codes[] = { { "%22", '"' }, { "%0D", '\r' }, { "%0A", '\n' } };
    char *to = text;

    while (*text) {
        size_t i = 0;

        while (i < 3 && strncasecmp(text, codes[i].code, 3) != 0)
            i++;
        *to++ = (char)(i < 3 ? codes[i].is : *text);
        text += i < 3 ? 3 : 1;
    }
    *to = '\0';
}

static void read_head(const char *head, size_t len, struct part *out)
{
    static const char name[] = "Content-Disposition:";
    const char *end = head + len;

    while (head < end) {
        const char *line_end = memmem(head, (size_t)(end - head), "\r\n", 2);
        size_t line = (size_t)((line_end ? line_end : end) - head);

        if (line > sizeof(name) - 1 && strncasecmp(head, name, sizeof(name) - 1) == 0) {
            (void)parameter(head, line, "name", out->name, sizeof(out->name));
            (void)parameter(head, line, "filename", out->filename,
                            sizeof(out->filename));
            unescape(out->filename);
        }
        head += line + 2;
    }
}

/* The line that ends a part whose data are at AT, before END. One that only begins like
 * it is data; with MORE to come, one that cannot be told yet is given as well. */
static const char *find_close(const char *at, const char *end, const char *close,
                              bool more)
{
    size_t len = strlen(close);

    while ((at = memmem(at, (size_t)(end - at), close, len))) {
        const char *behind = at + len;

        if (end - behind < 2
                ? more
                : memcmp(behind, "--", 2) == 0 || memcmp(behind, "\r\n", 2) == 0)
            return at;
        at = behind;
    }
    return NULL;
}

int multipart_next(struct multipart *m, struct part *out)
{
    size_t left = (size_t)(m->end - m->at);
    char close[84];
    const char *head_end, *data_end;

    *out = (struct part){ 0 };
    if (left >= 2 && strncmp(m->at, "--", 2) == 0)
        return 0;
    if (left < 2 || strncmp(m->at, "\r\n", 2) != 0)
        return -1;
    head_end = memmem(m->at, left, "\r\n\r\n", 4);
    if (!head_end)
        return -1;
    read_head(m->at + 2, (size_t)(head_end - m->at) - 2 + (head_end == m->at ? 2 : 0),
              out);
    out->data = head_end + 4;
    (void)snprintf(close, sizeof(close), "\r\n%s", m->boundary);
    data_end = find_close(out->data, m->end, close, false);
    if (!data_end)
        return -1;
    out->len = (size_t)(data_end - out->data);
    m->at = data_end + strlen(close);
    return 1;
}

#define HEAD_MAX ((size_t)64 << 10) /* of a part, and what stands before the first */

static const char *here(const struct form *f)
{
    return f->window.data ? f->window.data + f->at : "";
}

static size_t left(const struct form *f)
{
    return f->window.len - f->at;
}

/* More of the body behind what is left. False: there is none. */
static bool fill(struct form *f)
{
    size_t rest = left(f);
    int rc;

    if (f->ended || f->failed)
        return false;
    if (f->at > 0)
        memmove(f->window.data, f->window.data + f->at, rest);
    f->at = 0;
    f->window.len = rest;
    rc = f->source(f->context, &f->window);
    f->ended = rc == 0;
    f->failed = rc < 0 || f->window.failed;
    return rc > 0 && !f->failed;
}

/* TEXT in the next HEAD_MAX bytes, or NULL. No byte is looked through again because
 * another has come: they may come one by one. */
static const char *find_near(struct form *f, const char *text)
{
    const char *found = NULL;
    size_t len = strlen(text);
    size_t seen = 0;

    do {
        found = memmem(here(f) + seen, left(f) - seen, text, len);
        seen = left(f) < len ? 0 : left(f) - len + 1;
    } while (!found && left(f) < HEAD_MAX && fill(f));
    return found;
}

/* Goes behind FOUND, of LEN bytes. */
static void pass(struct form *f, const char *found, size_t len)
{
    f->at = (size_t)(found - f->window.data) + len;
}

bool form_begin(struct form *f, const char *type, form_source *source, void *context)
{
    const char *first;
    char given[72];

    *f = (struct form){ .source = source, .context = context };
    if (!read_boundary(type, given))
        return false;
    (void)snprintf(f->boundary, sizeof(f->boundary), "\r\n--%s", given);
    first = find_near(f, f->boundary + 2);
    if (first)
        pass(f, first, strlen(f->boundary) - 2);
    return first != NULL;
}

/* Whether TEXT comes next. */
static bool is_next(struct form *f, const char *text)
{
    size_t len = strlen(text);

    while (left(f) < len && fill(f))
        ;
    return left(f) >= len && memcmp(here(f), text, len) == 0;
}

int form_next(struct form *f, struct part *out)
{
    const char *data, *end;
    size_t len;
    int rc;

    *out = (struct part){ 0 };
    while ((rc = form_data(f, &data, &len)) > 0)
        ;
    if (rc < 0)
        return -1;
    if (is_next(f, "--"))
        return 0;
    if (!is_next(f, "\r\n"))
        return -1;
    end = find_near(f, "\r\n\r\n");
    if (!end)
        return -1;
    read_head(here(f) + 2, (size_t)(end - here(f)) - (end == here(f) ? 0 : 2), out);
    pass(f, end, 4);
    f->inside = true;
    return 1;
}

/* The first N bytes that are left are the part's. */
static int give(struct form *f, size_t n, const char **data, size_t *len)
{
    *data = here(f);
    *len = n;
    f->at += n;
    return 1;
}

int form_data(struct form *f, const char **data, size_t *len)
{
    size_t mark = strlen(f->boundary);

    while (f->inside) {
        const char *found =
            find_close(here(f), here(f) + left(f), f->boundary, !f->ended);
        size_t before = found ? (size_t)(found - here(f)) : left(f);

        if (found && before > 0)
            return give(f, before, data, len);
        if (found && left(f) >= mark + 2) {
            pass(f, found, mark);
            f->inside = false;
        } else if (!found && before >= mark) {
            return give(f, before - mark + 1, data, len); /* its begin may be there */
        } else if (!fill(f)) {
            return -1;
        }
    }
    return 0;
}

void form_done(struct form *f)
{
    str_done(&f->window);
}
