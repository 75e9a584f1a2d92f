/* SPDX-License-Identifier: Apache-2.0 */
#include "http/parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

#include "base/fail.h"

#define LINE_MAX_ 4096u /* of a chunk's length or a trailer */

static ssize_t bad(struct vial_error *err, const char *what)
{
    return fail(err, VIAL_E_ENGINE_API, "read the engine's answer: %s", what);
}

void parse_done(struct parse *p)
{
    str_done(&p->line);
}

/* A number that fills all of TEXT up to its end or to STOP. */
static int number(const char *text, int base, char stop, uint64_t *out)
{
    char *end = NULL;

    if (!isxdigit((unsigned char)*text))
        return -1;
    *out = strtoull(text, &end, base);
    while (*end == ' ' || *end == '\t')
        end++;
    if ((*end != '\0' && *end != stop) || *out > (UINT64_C(1) << 62))
        return -1;
    return 0;
}

static int read_status(struct parse *p, const char *line)
{
    if (!str_starts(line, "HTTP/1.") || strlen(line) < 12 || line[8] != ' ')
        return -1;
    for (int i = 9; i < 12; i++)
        if (!isdigit((unsigned char)line[i]))
            return -1;
    p->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    return p->status >= 100 ? 0 : -1;
}

struct head {
    bool chunked, has_length;
    uint64_t length;
};

/* The value when LINE is header NAME, else NULL. */
static const char *value_of(const char *line, const char *name)
{
    size_t len = strlen(name);

    if (strncasecmp(line, name, len) != 0 || line[len] != ':')
        return NULL;
    line += len + 1;
    return line + strspn(line, " \t");
}

static void read_version(struct parse *p, const char *value)
{
    char *end = NULL;
    unsigned long major = strtoul(value, &end, 10);
    unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;

    if (major < 1000 && minor < 10000) {
        p->version_major = (unsigned)major;
        p->version_minor = (unsigned)minor;
    }
}

static int read_header(struct parse *p, struct head *h, const char *line)
{
    const char *value = value_of(line, "Content-Length");
    uint64_t length = 0;

    if (value) {
        if (number(value, 10, '\0', &length) < 0 ||
            (h->has_length && length != h->length))
            return -1;
        h->has_length = true;
        h->length = length;
    }
    value = value_of(line, "Transfer-Encoding");
    if (value && strcasecmp(value, "chunked") != 0)
        return -1;
    h->chunked = h->chunked || value;
    value = value_of(line, "Api-Version");
    if (value)
        read_version(p, value);
    return 0;
}

static void begin_body(struct parse *p, const struct head *h)
{
    bool raw = p->upgrade && (p->status == 101 || p->status == 200);

    p->left = h->length;
    if (raw || p->no_body || p->status == 204 || p->status == 304)
        p->state = PARSE_DONE;
    else if (h->chunked)
        p->state = PARSE_CHUNK_LINE;
    else if (h->has_length)
        p->state = h->length > 0 ? PARSE_LENGTH : PARSE_DONE;
    else
        p->state = PARSE_TO_EOF;
}

/* All lines of the head, the empty one at its end included, lie in p->line. */
static int read_head(struct parse *p, struct vial_error *err)
{
    struct head h = { 0 };
    char *save = NULL;
    char *line = strtok_r(p->line.data, "\r\n", &save);

    if (!line || read_status(p, line) < 0)
        return (int)bad(err, "it does not begin as HTTP");
    while ((line = strtok_r(NULL, "\r\n", &save))) {
        if (read_header(p, &h, line) < 0)
            return (int)bad(err, "its length cannot be told");
        if (p->header && (p->status >= 200 || p->status == 101) &&
            p->header(p->header_context, line) < 0)
            return (int)bad(err, "a header is not valid");
    }
    if (h.chunked && h.has_length)
        return (int)bad(err, "it has two lengths");
    p->line.len = 0;
    if (p->status >= 100 && p->status < 200 && p->status != 101)
        return 0; /* "continue": the real head follows */
    begin_body(p, &h);
    return 0;
}

/* Bytes of DATA up to and with the next line end, or all. *COMPLETE tells. */
static size_t gather_line(struct parse *p, const char *data, size_t len, bool *complete)
{
    const char *end = memchr(data, '\n', len);
    size_t n = end ? (size_t)(end - data) + 1 : len;

    *complete = end != NULL;
    str_add(&p->line, data, n);
    return n;
}

static void trim(struct str *line)
{
    while (line->len > 0 &&
           (line->data[line->len - 1] == '\n' || line->data[line->len - 1] == '\r'))
        line->data[--line->len] = '\0';
}

static bool head_is_whole(const struct str *s)
{
    return (s->len >= 4 && memcmp(s->data + s->len - 4, "\r\n\r\n", 4) == 0) ||
           (s->len >= 2 && memcmp(s->data + s->len - 2, "\n\n", 2) == 0);
}

static ssize_t feed_head(struct parse *p, const char *data, size_t len,
                         struct vial_error *err)
{
    bool complete = false;
    size_t n = gather_line(p, data, len, &complete);

    if (!str_ok(&p->line))
        return fail_memory(err);
    if (p->line.len > PARSE_HEAD_MAX || memchr(data, '\0', n))
        return bad(err, "its head is too long, or no text");
    if (complete && head_is_whole(&p->line) && read_head(p, err) < 0)
        return -1;
    return (ssize_t)n;
}

static int end_line(struct parse *p, struct vial_error *err)
{
    trim(&p->line);
    if (p->state == PARSE_CHUNK_LINE) {
        if (number(p->line.data, 16, ';', &p->left) < 0)
            return (int)bad(err, "a part's length is no number");
        p->state = p->left > 0 ? PARSE_CHUNK : PARSE_TRAILER;
    } else if (p->state == PARSE_CHUNK_END) {
        if (p->line.len > 0)
            return (int)bad(err, "a part is longer than it says");
        p->state = PARSE_CHUNK_LINE;
    } else if (p->line.len == 0) {
        p->state = PARSE_DONE;
    }
    p->line.len = 0;
    return 0;
}

static ssize_t feed_line(struct parse *p, const char *data, size_t len,
                         struct vial_error *err)
{
    bool complete = false;
    size_t n = gather_line(p, data, len, &complete);

    if (!str_ok(&p->line))
        return fail_memory(err);
    if (p->line.len > LINE_MAX_)
        return bad(err, "a line is too long");
    if (complete && end_line(p, err) < 0)
        return -1;
    return (ssize_t)n;
}

static ssize_t feed_body(struct parse *p, const char *data, size_t len, http_take *take,
                         void *context, struct vial_error *err)
{
    size_t n = len;

    if (p->state != PARSE_TO_EOF && n > p->left)
        n = (size_t)p->left;
    if (take(context, data, n, err) < 0)
        return -1;
    if (p->state == PARSE_TO_EOF)
        return (ssize_t)n;
    p->left -= n;
    if (p->left == 0)
        p->state = p->state == PARSE_CHUNK ? PARSE_CHUNK_END : PARSE_DONE;
    return (ssize_t)n;
}

static ssize_t feed_once(struct parse *p, const char *data, size_t len, http_take *take,
                         void *context, struct vial_error *err)
{
    switch (p->state) {
    case PARSE_HEAD:
        return feed_head(p, data, len, err);
    case PARSE_CHUNK_LINE:
    case PARSE_CHUNK_END:
    case PARSE_TRAILER:
        return feed_line(p, data, len, err);
    case PARSE_LENGTH:
    case PARSE_CHUNK:
    case PARSE_TO_EOF:
        return feed_body(p, data, len, take, context, err);
    case PARSE_DONE:
        break;
    }
    return 0;
}

ssize_t parse_feed(struct parse *p, const char *data, size_t len, http_take *take,
                   void *context, struct vial_error *err)
{
    size_t used = 0;

    while (used < len && p->state != PARSE_DONE) {
        ssize_t n = feed_once(p, data + used, len - used, take, context, err);

        if (n < 0)
            return -1;
        used += (size_t)n;
    }
    return (ssize_t)used;
}

int parse_eof(struct parse *p, struct vial_error *err)
{
    if (p->state == PARSE_TO_EOF)
        p->state = PARSE_DONE;
    if (p->state == PARSE_DONE)
        return 0;
    return fail(err, VIAL_E_ENGINE_DOWN,
                "read the engine's answer: the connection ended %s",
                p->state == PARSE_HEAD ? "before it came" : "in the middle of it");
}
