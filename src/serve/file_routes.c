/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/thread.h"
#include "model/result.h"
#include "model/value.h"
#include "serve/bodies.h"
#include "serve/hold.h"
#include "serve/route.h"

#define auto_entry __attribute__((cleanup(vial_entry_done)))

#define LOOK_MS   500
#define PIECE     (UINT64_C(1) << 20)
#define HOLES_MAX (UINT64_C(1) << 30) /* that are sent as zeros */

static const char *type_name(char type)
{
    return type == 'f'   ? "file"
           : type == 'd' ? "directory"
           : type == 'l' ? "link"
                         : "other";
}

static json_t *entry_json(const struct vial_entry *e)
{
    char mode[8];
    json_t *path =
        value_text_json(e->path ? e->path : "", strlen(e->path ? e->path : ""));
    json_t *target =
        e->target ? value_text_json(e->target, strlen(e->target)) : json_null();

    (void)snprintf(mode, sizeof(mode), "%04o", e->mode & 07777u);
    return json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:s?}", "path",
                     path, "type", type_name(e->type), "mode", mode, "uid",
                     (json_int_t)e->uid, "gid", (json_int_t)e->gid, "size",
                     (json_int_t)e->size, "holes", (json_int_t)e->holes, "mtime_ns",
                     (json_int_t)e->mtime_ns, "target", target, "media", e->media);
}

static const char *path_of(const struct call *c)
{
    const char *path = web_query(c->web, "path");

    return path ? path : "";
}

/* Piece by piece, so that a large file takes little memory here. */
static void send_file(struct call *c, struct hold *h, uint64_t at, uint64_t end,
                      const char *media)
{
    struct vial_error err = { 0 };
    bool begun = false;

    do {
        uint64_t want = end - at < PIECE ? end - at : PIECE;
        auto_free char *data = NULL;
        size_t got = 0;

        if (want && vial_session_get(h->session->session, c->params[1], at, want, &data,
                                     &got, &err) < 0) {
            if (begun)
                web_abort(c->web);
            else
                call_error(c, &err);
            return;
        }
        if (!begun && web_start(c->web, 200, media) < 0)
            return;
        begun = true;
        c->status = 200;
        if (got == 0 || web_write(c->web, data, got) < 0)
            break;
        at += got;
    } while (at < end);
    web_end(c->web);
}

/* Of the part that is asked for, which may be all. */
static int check_holes(const struct call *c, const struct vial_entry *e, uint64_t len,
                       struct vial_error *err)
{
    if (len <= HOLES_MAX || e->holes <= HOLES_MAX)
        return 0;
    (void)fail(err, VIAL_E_QUOTA, "get '%s': %llu of its %llu bytes are holes",
               c->params[1], (unsigned long long)e->holes, (unsigned long long)e->size);
    return fail_remedy(err, "read parts of it by offset and length, or pack it inside "
                            "('tar -S')");
}

void files_get(struct call *c)
{
    auto_hold struct hold h = { 0 };
    auto_entry struct vial_entry entry = { 0 };
    struct vial_error err = { 0 };
    int64_t offset = 0;
    int64_t length = 0;
    uint64_t end;

    if (call_number(c, "offset", &offset, &err) < 0 ||
        call_number(c, "length", &length, &err) < 0 || hold_session(c, &h, &err) < 0 ||
        vial_session_stat_followed(h.session->session, c->params[1], &entry, &err) <
            0) {
        call_error(c, &err);
        return;
    }
    if (entry.type != 'f')
        (void)fail(&err, VIAL_E_PATH, "'%s' is not a file", c->params[1]);
    else if ((uint64_t)offset > entry.size)
        (void)fail(&err, VIAL_E_OFFSET, "the file has %llu bytes",
                   (unsigned long long)entry.size);
    end = entry.size;
    if (length && (uint64_t)offset + (uint64_t)length < end)
        end = (uint64_t)offset + (uint64_t)length;
    if (err.code[0] || check_holes(c, &entry, end - (uint64_t)offset, &err) < 0) {
        call_error(c, &err);
        return;
    }
    /* The guest names the file; a browser must not take it for a page of ours. */
    (void)web_set_header(c->web, "X-Content-Type-Options", "nosniff");
    (void)web_set_header(c->web, "Content-Security-Policy", "sandbox");
    (void)web_set_header(c->web, "Content-Disposition", "attachment");
    send_file(c, &h, (uint64_t)offset, end, entry.media);
}

static int read_mode(const struct call *c, unsigned *out, struct vial_error *err)
{
    const char *text = web_query(c->web, "mode");
    size_t len = text ? strlen(text) : 0;

    *out = 0;
    if (!text)
        return 0;
    if (len < 1 || len > 4 || strspn(text, "01234567") != len)
        return fail(err, VIAL_E_VALUE, "'mode' is not an octal number like 0644");
    for (; *text; text++)
        *out = *out << 3 | (unsigned)(*text - '0');
    return 0;
}

void files_put(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };
    unsigned mode;
    size_t len;
    const char *data = web_body(c->web, &len);

    if (read_mode(c, &mode, &err) < 0 || hold_session(c, &h, &err) < 0 ||
        vial_session_put(h.session->session, c->params[1], data, len, mode, &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

void files_remove(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_remove(h.session->session, c->params[1], call_flag(c, "deep"),
                            &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

void files_list(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_entries entries = { 0 };
    struct vial_error err = { 0 };
    json_t *list;

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_list(h.session->session, path_of(c), call_flag(c, "deep"),
                          &entries, &err) < 0) {
        call_error(c, &err);
        return;
    }
    list = json_array();
    for (size_t i = 0; i < entries.count; i++)
        (void)json_array_append_new(list, entry_json(&entries.items[i]));
    vial_entries_free(&entries);
    call_json(c, 200, list);
}

void files_stat(struct call *c)
{
    auto_hold struct hold h = { 0 };
    auto_entry struct vial_entry entry = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_stat(h.session->session, path_of(c), &entry, &err) < 0)
        call_error(c, &err);
    else
        call_json(c, 200, entry_json(&entry));
}

static json_t *event_json(const struct vial_event *e)
{
    json_t *json =
        json_pack("{s:o}", "path", value_text_json(e->path, strlen(e->path)));

    if (e->from[0])
        (void)json_object_set_new(json, "from",
                                  value_text_json(e->from, strlen(e->from)));
    return json;
}

/* Until the client has gone, or the session has ended. */
static void tell_events(struct call *c, struct stream *s, struct vial_watcher *watcher)
{
    struct pollfd gone = { .fd = web_gone_fd(c->web), .events = POLLIN };
    auto_free struct vial_event *e = calloc(1, sizeof *e);
    struct vial_error err = { 0 };
    int rc = e ? 0 : fail_memory(&err);

    while (rc >= 0 && poll(&gone, 1, 0) == 0) {
        rc = vial_watcher_next(watcher, LOOK_MS, e, &err);
        if (rc > 0 &&
            stream_event(s,
                         e->kind == VIAL_EVENT_GAP ? "lost" : vial_event_name(e->kind),
                         event_json(e)) < 0)
            return;
    }
    if (rc < 0)
        (void)stream_last(s, "error", json_pack("{s:o}", "error", error_json(&err)));
}

void files_watch(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };
    struct vial_watcher *watcher = NULL;
    unsigned flags = (call_flag(c, "deep") ? VIAL_WATCH_DEEP : 0) |
                     (call_flag(c, "attributes") ? VIAL_WATCH_ATTRIBUTES : 0);
    enum stream_form form;
    struct stream s = { 0 };

    if (stream_wanted(c, &form, &err) < 0 || hold_session(c, &h, &err) < 0 ||
        vial_session_watch(h.session->session, path_of(c), flags, &watcher, &err) < 0) {
        call_error(c, &err);
        return;
    }
    if (stream_start(&s, c, form == STREAM_NONE ? STREAM_NDJSON : form) == 0 &&
        stream_event(&s, "start", json_pack("{s:s}", "path", path_of(c))) == 0)
        tell_events(c, &s, watcher);
    vial_watcher_free(watcher);
}

void files_mkdir(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct mkdir_body body = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 || body_read(c, BODY_mkdir, &body, &err) < 0 ||
        vial_session_mkdir(h.session->session, body.path, &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

void files_move(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct move_body body = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 || body_read(c, BODY_move, &body, &err) < 0 ||
        vial_session_move(h.session->session, body.from, body.to, &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

/* The library writes an archive to a descriptor; a thread of its own does that, and
 * the handler passes on what comes. */
struct packing {
    struct vial_session *session;
    const char *path;
    int fd;
    int rc;
    struct vial_error err;
};

static void *pack(void *context)
{
    struct packing *p = context;

    p->rc = vial_session_export(p->session, p->path, p->fd, NULL, &p->err);
    (void)close(p->fd);
    return NULL;
}

static void pass_on(struct call *c, int fd, struct packing *p, pthread_t thread)
{
    auto_free char *buf = malloc(PIECE);
    ssize_t n = buf ? read(fd, buf, PIECE) : -1;

    if (n > 0 && web_start(c->web, 200, "application/x-tar") == 0) {
        c->status = 200;
        while (n > 0 && web_write(c->web, buf, (size_t)n) == 0)
            n = read(fd, buf, PIECE);
    }
    (void)close(fd); /* one that still writes gets EPIPE */
    (void)pthread_join(thread, NULL);
    if (c->status == 0)
        call_error(c, &p->err);
    else if (p->rc == 0)
        web_end(c->web);
    else
        web_abort(c->web);
}

void files_pack(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };
    auto_entry struct vial_entry entry = { 0 };
    struct packing p = { .path = path_of(c) };
    pthread_t thread;
    int ends[2];

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_stat_followed(h.session->session, p.path, &entry, &err) < 0) {
        call_error(c, &err);
        return;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        (void)fail_sys(&err, "open a pipe");
        call_error(c, &err);
        return;
    }
    p.session = h.session->session;
    p.fd = ends[1];
    if (thread_start(&thread, THREAD_STACK, pack, &p) != 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)fail_memory(&err);
        call_error(c, &err);
        return;
    }
    pass_on(c, ends[0], &p, thread);
}

void files_unpack(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };
    int fd;

    if (hold_session(c, &h, &err) < 0) {
        call_error(c, &err);
        return;
    }
    fd = web_body_fd(c->web);
    if (fd < 0)
        (void)fail_memory(&err);
    else if (vial_session_import(h.session->session, path_of(c), fd, &err) == 0) {
        call_done(c);
        return;
    }
    call_error(c, &err);
}
