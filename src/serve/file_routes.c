/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/thread.h"
#include "model/members.h"
#include "model/value.h"
#include "serve/hold.h"
#include "serve/route.h"

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

    (void)snprintf(mode, sizeof(mode), "%04o", e->mode & 07777u);
    return json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:s?}", "path", path, "type",
                     type_name(e->type), "mode", mode, "size", (json_int_t)e->size,
                     "holes", (json_int_t)e->holes, "mtime_ns", (json_int_t)e->mtime_ns,
                     "media", e->media);
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
    struct vial_entry entry = { 0 };
    struct vial_error err = { 0 };
    int64_t offset = 0;
    int64_t length = 0;
    uint64_t end;

    if (call_number(c, "offset", &offset, &err) < 0 ||
        call_number(c, "length", &length, &err) < 0 || hold_session(c, &h, &err) < 0 ||
        vial_session_stat(h.session->session, c->params[1], &entry, &err) < 0) {
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
    struct vial_entry entry = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_stat(h.session->session, path_of(c), &entry, &err) < 0)
        call_error(c, &err);
    else
        call_json(c, 200, entry_json(&entry));
}

void files_mkdir(struct call *c)
{
    auto_hold struct hold h = { 0 };
    auto_json json_t *body = NULL;
    const char *path = "";
    const struct member table[] = { { "path", MEMBER_TEXT, &path }, { 0 } };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 || call_body(c, &body, &err) < 0 ||
        members_read(body, table, NULL, &err) < 0 ||
        vial_session_mkdir(h.session->session, path, &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

void files_move(struct call *c)
{
    auto_hold struct hold h = { 0 };
    auto_json json_t *body = NULL;
    const char *from = "";
    const char *to = "";
    const struct member table[] = { { "from", MEMBER_TEXT, &from },
                                    { "to", MEMBER_TEXT, &to },
                                    { 0 } };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 || call_body(c, &body, &err) < 0 ||
        members_read(body, table, NULL, &err) < 0 ||
        vial_session_move(h.session->session, from, to, &err) < 0)
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
    struct vial_entry entry;
    struct packing p = { .path = path_of(c) };
    pthread_t thread;
    int ends[2];

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_stat(h.session->session, p.path, &entry, &err) < 0) {
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
