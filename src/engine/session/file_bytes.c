/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session/file_bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"

#define GET_MAX (UINT64_C(256) << 20)
#define PIECE   (64u << 10)

int files_check_path(const char *path, bool may_be_self, struct vial_error *err)
{
    if (may_be_self && (!*path || str_eq(path, ".")))
        return 0;
    if (path_is_plain_relative(path, strlen(path)))
        return 0;
    (void)fail(err, VIAL_E_PATH, "path '%s' is not allowed", path);
    return fail_remedy(err, "name it relative to the working directory, without '.', "
                            "'..' and empty parts, each part at most 255 bytes");
}

int files_fail(const struct files_way *w, struct vial_error *err)
{
    int error = w->op.error;

    (void)fail_sys_rc(err, error, "%s '%s'", w->verb, w->path);
    switch (error) {
    case ENOENT:
        return fail_as(err, VIAL_E_NO_FILE);
    case ELOOP:
    case EXDEV:
        (void)fail_remedy(err, "symbolic links are not followed; name a plain file");
        return fail_as(err, VIAL_E_PATH);
    case EFBIG:
        if (str_eq(w->verb, "get")) {
            (void)fail_remedy(err,
                              "much of it are holes: read parts of it by offset and "
                              "length, or pack it inside ('tar -S')");
            return fail_as(err, VIAL_E_QUOTA);
        }
        /* fall through */
    case ENOSPC:
    case EDQUOT:
        (void)fail_remedy(err, "raise 'disk', or bring less");
        return fail_as(err, VIAL_E_QUOTA);
    default:
        return fail_as(err, VIAL_E_FILE);
    }
}

int files_enter(struct files_way *w, files_ask *ask, const void *message,
                struct vial_error *err)
{
    struct vial_session *s = w->session;
    int rc;

    session_lock(s);
    rc = session_touch(s, err);
    if (rc == 0)
        rc = ask(s->talk.link, message, &w->op.channel, err);
    if (rc == 0) {
        w->op.next = s->ops;
        s->ops = &w->op;
        session_flush(s);
    }
    session_unlock(s);
    return rc;
}

static int ask_put(struct link *l, const void *message, uint32_t *channel,
                   struct vial_error *err)
{
    return link_put(l, message, channel, err);
}

static int ask_get(struct link *l, const void *message, uint32_t *channel,
                   struct vial_error *err)
{
    return link_get(l, message, channel, err);
}

static void leave(struct files_way *w)
{
    struct vial_session *s = w->session;
    struct session_op **at = &s->ops;

    if (w->op.channel && s->outcome == VIAL_SESSION_OPEN) {
        link_close_channel(s->talk.link, w->op.channel);
        session_flush(s);
    }
    while (*at != &w->op)
        at = &(*at)->next;
    *at = w->op.next;
    str_done(&w->op.got);
    s->active_ns = clock_now_ns();
}

/* Waits for news; a guest that has none for too long is lost. */
static int wait_news(struct files_way *w, struct vial_error *err)
{
    struct vial_session *s = w->session;
    int64_t until = clock_now_ns() + (int64_t)SESSION_STUCK_MS * 1000000;
    struct vial_error why = { 0 };

    if (!session_wait(s, until)) {
        (void)fail(&why, VIAL_E_GUEST, "%s '%s': the guest is stuck", w->verb, w->path);
        session_end(s, VIAL_SESSION_FAILED, &why);
    }
    return s->outcome == VIAL_SESSION_OPEN ? 0 : session_fail_ended(s, err);
}

int files_put_begin(struct files_way *w, struct vial_session *s, const char *path,
                    unsigned mode, struct vial_error *err)
{
    auto_free char *copy = strdup(path);
    const struct put_message m = { .path = copy, .mode = mode & 0777 };

    *w = (struct files_way){ .session = s, .path = path, .verb = "put" };
    if (files_check_path(path, false, err) < 0)
        return -1;
    if (!copy)
        return fail_memory(err);
    return files_enter(w, ask_put, &m, err);
}

int files_put_some(struct files_way *w, const void *data, size_t len,
                   struct vial_error *err)
{
    struct vial_session *s = w->session;
    const char *at = data;
    int rc = 0;

    session_lock(s);
    while (rc == 0 && len > 0 && w->op.channel) {
        size_t n = link_writable(s->talk.link, w->op.channel);

        n = n < len ? n : len;
        link_send(s->talk.link, w->op.channel, at, n);
        at += n;
        len -= n;
        session_flush(s);
        if (n == 0)
            rc = wait_news(w, err);
    }
    /* Ended before all was sent: an error of the guest's, or of the session. */
    if (rc == 0 && !w->op.channel)
        rc = s->outcome == VIAL_SESSION_OPEN ? files_fail(w, err)
                                             : session_fail_ended(s, err);
    session_unlock(s);
    return rc;
}

int files_put_end(struct files_way *w, bool whole, struct vial_error *err)
{
    struct vial_session *s = w->session;
    int rc = 0;

    session_lock(s);
    if (whole && w->op.channel) {
        link_send_eof(s->talk.link, w->op.channel);
        session_flush(s);
    }
    while (whole && rc == 0 && w->op.channel)
        rc = wait_news(w, err);
    if (whole && rc == 0 && s->outcome != VIAL_SESSION_OPEN)
        rc = session_fail_ended(s, err);
    else if (whole && rc == 0 && w->op.error)
        rc = files_fail(w, err);
    leave(w);
    session_unlock(s);
    return rc;
}

static int check_room(const struct vial_session *s, const char *path, uint64_t len,
                      struct vial_error *err)
{
    uint64_t most = (uint64_t)s->plan->limits.disk_bytes;

    if (most == 0 || len <= most)
        return 0;
    (void)fail(err, VIAL_E_QUOTA,
               "put '%s': %" PRIu64 " bytes are more than the %" PRIu64 " of 'disk'",
               path, len, most);
    return fail_remedy(err, "raise 'disk', or bring less");
}

int files_put_queue(struct files_way *w, struct vial_session *s, const char *path,
                    const struct blob *content, unsigned mode, struct vial_error *err)
{
    auto_free char *copy = strdup(path);
    const struct put_message m = { .path = copy, .mode = mode & 0777 };

    *w = (struct files_way){ .session = s, .path = path, .verb = "put" };
    if (files_check_path(path, false, err) < 0 ||
        check_room(s, path, content->len, err) < 0)
        return -1;
    if (!copy)
        return fail_memory(err);
    if (link_put(s->talk.link, &m, &w->op.channel, err) < 0)
        return -1;
    w->op.next = s->ops;
    s->ops = &w->op;
    link_send(s->talk.link, w->op.channel, content->data, content->len);
    link_send_eof(s->talk.link, w->op.channel);
    return 0;
}

int files_put_settle(struct files_way *w, struct vial_error *err)
{
    int rc;

    session_lock(w->session);
    rc = w->op.error ? files_fail(w, err) : 0;
    leave(w);
    session_unlock(w->session);
    return rc;
}

int vial_session_put(struct vial_session *session, const char *path, const void *data,
                     size_t len, unsigned mode, struct vial_error *err)
{
    struct files_way w;
    int rc;

    if (check_room(session, path, len, err) < 0 ||
        files_put_begin(&w, session, path, mode, err) < 0)
        return -1;
    rc = len > 0 ? files_put_some(&w, data, len, err) : 0;
    return files_put_end(&w, rc == 0, err) < 0 ? -1 : rc;
}

static int put_all(struct files_way *w, int fd, struct vial_error *err)
{
    auto_free char *buf = malloc(PIECE);
    uint64_t total = 0;
    ssize_t n;

    if (!buf)
        return fail_memory(err);
    while ((n = io_read_all(fd, buf, PIECE)) > 0) {
        total += (uint64_t)n;
        if (check_room(w->session, w->path, total, err) < 0 ||
            files_put_some(w, buf, (size_t)n, err) < 0)
            return -1;
    }
    return n < 0 ? fail_sys_rc(err, (int)n, "read what goes to '%s'", w->path) : 0;
}

int vial_session_put_fd(struct vial_session *session, const char *path, int fd,
                        unsigned mode, struct vial_error *err)
{
    struct files_way w;
    int rc;

    if (files_put_begin(&w, session, path, mode, err) < 0)
        return -1;
    rc = put_all(&w, fd, err);
    return files_put_end(&w, rc == 0, err) < 0 ? -1 : rc;
}

static int check_offset(struct vial_session *s, const char *path, uint64_t offset,
                        struct vial_error *err)
{
    struct vial_entry e;

    if (offset == 0)
        return 0;
    if (vial_session_stat(s, path, &e, err) < 0)
        return -1;
    if (offset <= e.size)
        return 0;
    return fail(err, VIAL_E_OFFSET,
                "get '%s' from offset %" PRIu64 ": it has %" PRIu64 " bytes", path,
                offset, e.size);
}

uint64_t files_most(const struct vial_session *s)
{
    const struct limits *l = &s->plan->limits;
    int64_t most = l->disk_bytes > l->tmp_bytes ? l->disk_bytes : l->tmp_bytes;

    if (!l->disk_bytes || s->plan->mount_count > 0 ||
        s->plan->container.cache_count > 0 || str_eq(s->driver->name, "process"))
        return UINT64_MAX;
    return (uint64_t)most + PIECE; /* the kernel gives whole pages */
}

static int fail_more(const struct files_way *w, struct vial_error *err)
{
    (void)fail(err, VIAL_E_QUOTA, "get '%s': it has more bytes than 'disk' allows",
               w->path);
    return fail_remedy(err, "read a part of it, by offset and length");
}

int files_get_begin(struct files_way *w, struct vial_session *s, const char *path,
                    uint64_t offset, uint64_t len, struct vial_error *err)
{
    auto_free char *copy = strdup(path);
    struct get_message m = { .path = copy, .offset = offset };

    *w = (struct files_way){ .session = s, .path = path, .verb = "get" };
    m.len = len > INT64_MAX ? 0 : len;
    w->left = m.len ? m.len : files_most(s);
    w->bounded = true;
    if (files_check_path(path, false, err) < 0 ||
        check_offset(s, path, offset, err) < 0)
        return -1;
    if (!copy)
        return fail_memory(err);
    return files_enter(w, ask_get, &m, err);
}

int files_get_some(struct files_way *w, struct str *out, struct vial_error *err)
{
    struct vial_session *s = w->session;
    int rc = 0;

    session_lock(s);
    while (rc == 0 && w->op.channel && w->op.got.len == 0)
        rc = wait_news(w, err);
    if (rc == 0 && s->outcome != VIAL_SESSION_OPEN)
        rc = session_fail_ended(s, err);
    if (rc == 0 && w->bounded && w->op.got.len > w->left)
        rc = fail_more(w, err);
    if (rc == 0 && w->op.got.len > 0) {
        w->left -= w->op.got.len;
        str_add(out, w->op.got.data, w->op.got.len);
        if (w->op.channel)
            link_consumed(s->talk.link, w->op.channel, 1, w->op.got.len);
        w->op.got.len = 0;
        session_flush(s);
        rc = 1;
    }
    if (out->failed || w->op.got.failed)
        rc = fail_memory(err);
    if (rc == 0 && w->op.error)
        rc = files_fail(w, err);
    session_unlock(s);
    return rc;
}

void files_get_end(struct files_way *w)
{
    session_lock(w->session);
    leave(w);
    session_unlock(w->session);
}

/* NOLINTNEXTLINE(readability-function-size): a range and its bytes */
int vial_session_get(struct vial_session *session, const char *path, uint64_t offset,
                     uint64_t len, char **data, size_t *got, struct vial_error *err)
{
    auto_str struct str all = { 0 };
    struct files_way w;
    int rc;

    if (files_get_begin(&w, session, path, offset, len, err) < 0)
        return -1;
    while ((rc = files_get_some(&w, &all, err)) > 0 && all.len <= GET_MAX)
        ;
    files_get_end(&w);
    if (rc < 0)
        return -1;
    if (all.len > GET_MAX)
        return fail(err, VIAL_E_QUOTA, "get '%s': more than %" PRIu64 " bytes", path,
                    GET_MAX);
    *got = all.len;
    *data = str_take(&all);
    return *data ? 0 : fail_memory(err);
}

int vial_session_get_fd(struct vial_session *session, const char *path, uint64_t offset,
                        uint64_t len, int fd, struct vial_error *err)
{
    auto_str struct str some = { 0 };
    struct files_way w;
    int rc;

    if (files_get_begin(&w, session, path, offset, len, err) < 0)
        return -1;
    while ((rc = files_get_some(&w, &some, err)) > 0) {
        int wrote = io_write_all(fd, some.data, some.len);

        some.len = 0;
        if (wrote < 0) {
            rc = fail_sys_rc(err, wrote, "write what came from '%s'", path);
            break;
        }
    }
    files_get_end(&w);
    return rc;
}
