/* SPDX-License-Identifier: Apache-2.0 */

/* Whole files, down, piece by piece. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/unit.h"
#include "e2b/filesystem.h"
#include "web/gzip.h"

#define UNSIZED   (UINT64_C(8) << 20)
#define HOLES_MAX (UINT64_C(1) << 30) /* that are sent as zeros */

bool files_check_user(struct ask *a)
{
    const char *name = web_query(a->web, "username");

    struct connect_error e;

    if (!name || connect_check_user(a, name, &a->root, &e) == 0)
        return true;
    ask_refuse(a, 401, "%s", e.message);
    return false;
}

void files_refuse(struct ask *a, const struct connect_error *e)
{
    ask_refuse(a,
               e->code == CONNECT_NOT_FOUND       ? 404
               : e->code == CONNECT_INVALID       ? 400
               : e->code == CONNECT_DENIED        ? 403
               : e->code == CONNECT_UNIMPLEMENTED ? 501
                                                  : 500,
               "%s", e->message);
}

/* "bytes=A-B", "bytes=A-", "bytes=-N": *FROM and *END of SIZE. 1; 0: there is none that
 * counts; -1: it lies outside. */
static int read_range(const char *text, uint64_t size, uint64_t *from, uint64_t *end)
{
    char copy[64];
    char *dash;
    int64_t a = -1;
    int64_t b = -1;

    if (!text || strncmp(text, "bytes=", 6) != 0 || strlen(text) >= sizeof(copy) ||
        strchr(text, ','))
        return 0;
    (void)snprintf(copy, sizeof(copy), "%s", text + 6);
    dash = strchr(copy, '-');
    if (!dash)
        return 0;
    *dash++ = '\0';
    if ((*copy && unit_parse_count(copy, &a) < 0) ||
        (*dash && unit_parse_count(dash, &b) < 0) || (a < 0 && b < 0) ||
        (a >= 0 && b >= 0 && b < a))
        return 0;
    *from = a >= 0 ? (uint64_t)a : (uint64_t)b < size ? size - (uint64_t)b : 0;
    *end = a >= 0 && b >= 0 && (uint64_t)b < size ? (uint64_t)b + 1 : size;
    return *from < size || (a < 0 && b > 0) ? 1 : -1;
}

/* Of SIZE bytes those from FROM on, before END; none of them: the file is shorter. */
static void set_range(struct ask *a, uint64_t from, uint64_t end, uint64_t size)
{
    char text[96];

    if (from < end)
        (void)snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
                       from, end - 1, size);
    else
        (void)snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
    (void)web_set_header(a->web, "Content-Range", text);
}

/* The guest chose name and content; a browser must not take it for a page of ours. */
static void set_heads(struct ask *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    auto_str struct str text = { 0 };

    str_puts(&text, "inline; filename*=UTF-8''");
    for (const char *at = slash ? slash + 1 : path; *at; at++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.",
                   *at))
            str_putc(&text, *at);
        else
            str_printf(&text, "%%%02X", (unsigned char)*at);
    if (str_ok(&text))
        (void)web_set_header(a->web, "Content-Disposition", text.data);
    (void)web_set_header(a->web, "X-Content-Type-Options", "nosniff");
    (void)web_set_header(a->web, "Content-Security-Policy", "sandbox");
    (void)web_set_header(a->web, "Accept-Ranges", "bytes");
    (void)web_set_header(a->web, "Vary", "Accept-Encoding");
}

struct download {
    struct ask *ask;
    const char *path, *media;
    const char *name; /* it is read by that one */
    uint64_t at, end;
    unsigned status;
    bool started;
    struct gzip *gzip; /* it is packed by that, or NULL */
};

static void refuse_error(struct ask *a, const struct vial_error *err)
{
    struct connect_error e;

    (void)connect_from(&e, err);
    files_refuse(a, &e);
}

/* How long a packed one gets is seen in the end. */
static int start(struct download *d)
{
    struct web_request *req = d->ask->web;

    d->started = true;
    d->ask->turn->status = d->status;
    set_heads(d->ask, d->path);
    if (!d->gzip)
        return web_start_sized(req, d->status, d->media, d->end - d->at);
    (void)web_set_header(req, "Content-Encoding", "gzip");
    return web_start(req, d->status, d->media);
}

/* Of a small file the first piece is all. */
static int send_whole(struct download *d, const char *data, size_t len)
{
    d->ask->turn->status = d->status;
    set_heads(d->ask, d->path);
    return web_reply(d->ask->web, d->status, d->media, data, len);
}

static int send_packed_piece(struct download *d, const char *data, size_t len)
{
    auto_str struct str packed = { 0 };

    if (gzip_add(d->gzip, data, len, d->at >= d->end, &packed) < 0)
        return -1;
    return packed.len ? web_write(d->ask->web, packed.data, packed.len) : 0;
}

/* An inside_sink. */
static int send_piece(void *context, const char *data, size_t len)
{
    struct download *d = context;
    bool whole = !d->started && !d->gzip && len == d->end - d->at;
    int rc = whole || d->started ? 0 : start(d);

    d->at += len;
    if (whole)
        rc = send_whole(d, data, len);
    else if (rc == 0)
        rc = d->gzip ? send_packed_piece(d, data, len)
                     : web_write(d->ask->web, data, len);
    return rc < 0 ? -EPIPE : 0;
}

/* Below the home without a process inside, unless a link is on the way. */
static int get(struct download *d, struct vial_error *err)
{
    const struct inside_sink to = { send_piece, d, d->ask->root };
    struct vial_session *s = box_session(d->ask->box);

    if (inside_get(s, d->name, d->at, d->end - d->at, &to, err) == 0)
        return 0;
    if (d->started || d->name == d->path || !fail_is(err, VIAL_E_PATH))
        return -1;
    fail_clear(err);
    d->name = d->path;
    return inside_get(s, d->name, d->at, d->end - d->at, &to, err);
}

/* The first piece says whether it can be read at all; a part never counts as all. */
static void send_file(struct ask *a, struct download *d)
{
    struct vial_error err = { 0 };
    uint64_t from = d->at;
    int rc = from < d->end ? get(d, &err) : start(d);

    if (rc < 0 && !d->started && d->at == from)
        refuse_error(a, &err);
    else if (d->started && d->at >= d->end)
        web_end(a->web);
    else if (d->started)
        web_abort(a->web);
}

/* A file that was said to be empty may have grown; a guest that sends more is not
 * believed. */
static void send_unsized(struct ask *a, struct download *d)
{
    struct vial_error err = { 0 };
    char *data = NULL;
    size_t got = 0;

    if (vial_session_get_as(box_session(a->box), a->root, d->path, 0, UNSIZED + 1,
                            &data, &got, &err) < 0) {
        refuse_error(a, &err);
        return;
    }
    if (got > UNSIZED) {
        free(data);
        ask_refuse(a, 400, "path '%.256s' does not say its size", d->path);
        return;
    }
    set_heads(a, d->path);
    a->turn->status = 200;
    (void)web_give(a->web, 200, d->media, data, got);
}

/* Of a link, what it leads to. */
static int look(struct ask *a, const char *path, struct vial_entry *out,
                struct download *d, struct vial_error *err)
{
    struct vial_session *s = box_session(a->box);

    d->path = path;
    d->name = a->root ? path : box_name(path);
    if (vial_session_stat_as(s, a->root, false, path, out, err) < 0)
        return -1;
    if (out->type != 'l')
        return 0;
    d->name = path;
    vial_entry_done(out);
    return vial_session_stat_as(s, a->root, true, path, out, err);
}

static int check(struct ask *a, const char *path, struct download *d,
                 struct connect_error *e)
{
    struct vial_entry entry = { 0 };
    struct vial_error err = { 0 };
    int dir = entry_is_dir(a, path, e);

    if (dir < 0)
        return -1;
    if (dir)
        return connect_fail(e, CONNECT_INVALID, "path '%.256s' is a directory", path);
    if (look(a, path, &entry, d, &err) < 0)
        return connect_from(e, &err);
    d->end = entry.size;
    d->media = entry.media ? entry.media : "application/octet-stream";
    vial_entry_done(&entry);
    if (entry.holes > HOLES_MAX)
        return connect_fail(e, CONNECT_INVALID, "path '%.256s' is mostly holes", path);
    return 0;
}

/* Who asks for gzip and nothing else wants it. Clients' libraries offer several codings
 * for every answer, and are better served without: packing takes longer than a local
 * line. */
static bool wants_gzip(const struct ask *a, int range)
{
    const char *accepted = web_header(a->web, "Accept-Encoding");

    return accepted && strcasecmp(accepted, "gzip") == 0 && range == 0 &&
           strcmp(web_method(a->web), "HEAD") != 0;
}

static void send_packed(struct ask *a, struct download *d)
{
    auto_gzip struct gzip *gzip = gzip_open();

    d->gzip = gzip;
    if (gzip)
        send_file(a, d);
    else
        ask_refuse(a, 500, "out of memory");
}

void files_download(struct ask *a)
{
    const char *given = web_query(a->web, "path");
    auto_str struct str path = { 0 };
    struct connect_error e = { 0 };

    if (!files_check_user(a))
        return;
    if (box_path(box_home(a), given ? given : "", &path, &e) < 0)
        files_refuse(a, &e);
    else
        files_send(a, path.data);
}

void files_send(struct ask *a, const char *path)
{
    struct connect_error e = { 0 };
    struct download d = { .ask = a, .status = 200 };
    uint64_t size;
    int range;

    if (check(a, path, &d, &e) < 0) {
        files_refuse(a, &e);
        return;
    }
    size = d.end;
    range = size ? read_range(web_header(a->web, "Range"), size, &d.at, &d.end) : 0;
    if (range != 0)
        set_range(a, d.at, range > 0 ? d.end : 0, size);
    if (range > 0)
        d.status = 206;
    if (range < 0)
        ask_refuse(a, 416, "the file has %" PRIu64 " bytes", size);
    else if (size == 0)
        send_unsized(a, &d);
    else if (wants_gzip(a, range))
        send_packed(a, &d);
    else
        send_file(a, &d);
}
