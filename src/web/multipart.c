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

bool multipart_begin(struct multipart *m, const char *type, const char *body,
                     size_t len)
{
    static const char kind[] = "multipart/form-data";
    char given[72];

    *m = (struct multipart){ .at = body, .end = body + len };
    if (strncasecmp(type, kind, sizeof(kind) - 1) != 0 ||
        !parameter(type, strlen(type), "boundary", given, sizeof(given)) || !*given)
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

/* The line that ends a part whose data begins at DATA. One that only begins like it is
 * data. */
static const char *find_close(const struct multipart *m, const char *data,
                              const char *close)
{
    size_t len = strlen(close);
    const char *at = data;

    while ((at = memmem(at, (size_t)(m->end - at), close, len))) {
        const char *behind = at + len;

        if (m->end - behind >= 2 &&
            (strncmp(behind, "--", 2) == 0 || strncmp(behind, "\r\n", 2) == 0))
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
    data_end = find_close(m, out->data, close);
    if (!data_end)
        return -1;
    out->len = (size_t)(data_end - out->data);
    m->at = data_end + strlen(close);
    return 1;
}
