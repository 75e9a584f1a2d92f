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

#define GET_MAX   (UINT64_C(256) << 20)
#define PIECE     (64u << 10)
#define PATH_MOST 4096u

/* Empty parts stay, to be refused. */
static char *clean_absolute(const char *path)
{
    struct str s = { 0 };

    while (*path == '/') {
        size_t len = strcspn(++path, "/");

        if ((len != 1 || *path != '.') && (len > 0 || path[len])) {
            str_putc(&s, '/');
            str_add(&s, path, len);
        }
        path += len;
    }
    if (s.len == 0)
        str_putc(&s, '/');
    return str_take(&s);
}

char *files_name(const char *path)
{
    if (*path == '/')
        return clean_absolute(path);
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    return strdup(str_eq(path, ".") ? "" : path);
}

int files_check_path(const struct vial_session *s, const char *path, bool may_be_self,
                     struct vial_error *err)
{
    auto_free char *name = files_name(path);
    const char *parts = name && *name == '/' ? name + 1 : name;

    if (!parts)
        return fail_memory(err);
    if (!*parts && may_be_self)
        return 0;
    if (strlen(name) < PATH_MOST && path_is_plain_relative(parts, strlen(parts)))
        return 0;
    (void)fail(err, VIAL_E_PATH, "path '%s' is not allowed", path);
    return fail_remedy(err,
                       "name what lies below the working directory ('%s'), or an "
                       "absolute path, without '..' and empty parts, each part at most "
                       "255 bytes",
                       s->plan->workdir);
}

int files_fail(const struct files_way *w, struct vial_error *err)
{
    int error = w->op.error;

    (void)fail_sys_rc(err, error, "%s '%s'", w->verb, w->path);
    switch (error) {
    case ENOENT:
        return fail_as(err, VIAL_E_NO_FILE);
    case EXDEV:
        (void)fail_remedy(err,
                          "a directory or link does not move to another file system: "
                          "copy it, or pack and unpack it");
        return fail_as(err, VIAL_E_FILE);
    case ELOOP:
        (void)fail_remedy(err, "symbolic links are followed only where the path is "
                               "absolute, and not in circles; name a plain file");
        return fail_as(err, VIAL_E_PATH);
    case EOPNOTSUPP:
        (void)fail_remedy(err, "in memory files have attributes since Linux 6.6: leave "
                               "them out");
        return fail_as(err, VIAL_E_UNSUPPORTED);
    case EAGAIN:
        (void)fail_remedy(err,
                          "no process is left in the session: end some, or name the "
                          "file by a path below the working directory");
        return fail_as(err, VIAL_E_BUSY);
    case EFBIG:
        if (str_eq(w->verb, "get")) {
            (void)fail_remedy(err,
                              "much of it are holes: read parts of it by offset and "
                              "length, or pack it inside ('tar -S')");
            return fail_as(err, VIAL_E_QUOTA);
        }
        /* fall through */
    case ENOSPC:
        if (str_eq(w->verb, "watch")) {
            (void)fail_remedy(
                err, "there are more than 8192 directories, or the host's limits "
                     "on inotify (max_user_watches, max_user_instances) are "
                     "used up: watch less");
            return fail_as(err, VIAL_E_QUOTA);
        }
        /* fall through */
    case EDQUOT:
        (void)fail_remedy(err, "raise 'disk', or bring less");
        return fail_as(err, VIAL_E_QUOTA);
    default:
        return fail_as(err, VIAL_E_FILE);
    }
}

/* The workdir of a driver without a root of its own lies elsewhere. */
char *files_inside(const struct vial_session *s, const char *path)
{
    auto_free char *name = files_name(path);
    const char *below;

    if (!name || *name != '/' || !path_is_beneath(name, s->plan->workdir))
        return ptr_take(&name);
    below = name + strlen(s->plan->workdir);
    return *below ? path_join(s->workdir, below + 1) : strdup(s->workdir);
}

char *files_join(const char *dir, const char *name)
{
    struct str s = { 0 };

    str_puts(&s, dir);
    str_puts(&s, *dir && *name && !str_eq(dir, "/") ? "/" : "");
    str_puts(&s, name);
    return str_take(&s);
}

static int queue(struct link *l, const struct files_ask *ask, uint32_t *channel,
                 struct vial_error *err)
{
    if (ask->put)
        return link_put(l, ask->put, channel, err);
    if (ask->get)
        return link_get(l, ask->get, channel, err);
    if (ask->name)
        return link_name(l, ask->name, channel, err);
    return ask->list ? link_list(l, ask->list, channel, err)
                     : link_watch(l, ask->watch, channel, err);
}

static const char *path_of(const struct files_ask *ask)
{
    return ask->put     ? ask->put->path
           : ask->get   ? ask->get->path
           : ask->name  ? ask->name->path
           : ask->watch ? ask->watch->path
                        : ask->list;
}

/* Each has memory of the guest's, and descriptors of which a user has few. */
static int check_watchers(const struct vial_session *s, const char *path,
                          struct vial_error *err)
{
    unsigned count = 0;

    for (const struct session_op *op = s->ops; op; op = op->next)
        count += op->passive;
    if (count < VIAL_WATCHERS_MAX)
        return 0;
    (void)fail(err, VIAL_E_BUSY, "watch '%s': the session has %u watchers", path,
               count);
    return fail_remedy(err, "end one, or watch a directory above with all below it");
}

/* By the process that does it: below the working directory there is none. */
static int check_root(const struct files_way *w, struct vial_error *err)
{
    if (w->helped)
        return session_check_root(w->session, err);
    (void)fail(err, VIAL_E_PATH, "%s '%s': root's calls are at absolute paths", w->verb,
               w->path);
    return fail_remedy(err, "name it by its whole path");
}

int files_enter(struct files_way *w, const struct files_ask *ask,
                struct vial_error *err)
{
    struct vial_session *s = w->session;
    int rc;

    w->helped = *path_of(ask) == '/';
    if (w->root && check_root(w, err) < 0)
        return -1;
    session_lock(s);
    rc = session_touch(s, err);
    if (rc == 0 && ask->watch)
        rc = check_watchers(s, w->path, err);
    if (rc == 0 && w->root)
        link_root(s->talk.link);
    if (rc == 0)
        rc = queue(s->talk.link, ask, &w->op.channel, err);
    if (rc == 0) {
        w->op.next = s->ops;
        s->ops = &w->op;
        session_flush(s);
    }
    session_unlock(s);
    return rc;
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

    if (s->paused_ns)
        (void)session_wait(s, SESSION_NEVER);
    else if (!session_wait(s, until) && !s->paused_ns) {
        if (w->helped)
            return fail(err, VIAL_E_BUSY, "%s '%s': programs of the session hold it up",
                        w->verb, w->path);
        (void)fail(&why, VIAL_E_GUEST, "%s '%s': the guest is stuck", w->verb, w->path);
        session_end(s, VIAL_SESSION_FAILED, &why);
    }
    return s->outcome == VIAL_SESSION_OPEN ? 0 : session_fail_ended(s, err);
}

static int begin_put(struct files_way *w, struct vial_session *s, const char *path,
                     const struct vial_put_options *how, struct vial_error *err)
{
    auto_free char *copy = files_inside(s, path);
    const struct put_message m = { .path = copy,
                                   .mode = how->mode & 0777,
                                   .attributes = (char *)(uintptr_t)how->attributes };

    *w = (struct files_way){
        .session = s, .path = path, .verb = "put", .root = how->as_root
    };
    if (files_check_path(s, path, false, err) < 0)
        return -1;
    if (how->attributes && !attributes_are_good(how->attributes))
        return fail(err, VIAL_E_VALUE,
                    "put '%s': attributes are lines NAME=VALUE of printable ASCII, "
                    "%u bytes in all",
                    path, LIST_ATTRIBUTES_MAX);
    if (!copy)
        return fail_memory(err);
    return files_enter(w, &(struct files_ask){ .put = &m }, err);
}

int files_put_begin(struct files_way *w, struct vial_session *s, const char *path,
                    unsigned mode, struct vial_error *err)
{
    return begin_put(w, s, path, &(struct vial_put_options){ .mode = mode }, err);
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
    auto_free char *copy = files_inside(s, path);
    const struct put_message m = { .path = copy, .mode = mode & 0777 };

    *w = (struct files_way){ .session = s, .path = path, .verb = "put" };
    if (files_check_path(s, path, false, err) < 0 ||
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

int vial_session_put_with(struct vial_session *session, const char *path,
                          const void *data, size_t len,
                          const struct vial_put_options *options,
                          struct vial_error *err)
{
    struct files_way w;
    int rc;

    if (check_room(session, path, len, err) < 0 ||
        begin_put(&w, session, path, options, err) < 0)
        return -1;
    rc = len > 0 ? files_put_some(&w, data, len, err) : 0;
    return files_put_end(&w, rc == 0, err) < 0 ? -1 : rc;
}

int vial_session_put(struct vial_session *session, const char *path, const void *data,
                     size_t len, unsigned mode, struct vial_error *err)
{
    return vial_session_put_with(session, path, data, len,
                                 &(struct vial_put_options){ .mode = mode }, err);
}

static int put_all(struct files_way *w, files_source *next, void *context,
                   struct vial_error *err)
{
    uint64_t total = 0;
    const char *data;
    size_t len;
    int rc;

    while ((rc = next(context, &data, &len)) > 0) {
        total += len;
        if (check_room(w->session, w->path, total, err) < 0 ||
            files_put_some(w, data, len, err) < 0)
            return -1;
    }
    return rc < 0 ? fail(err, VIAL_E_VALUE, "put '%s': it did not come whole", w->path)
                  : 0;
}

int files_put_from(struct vial_session *session, const char *path,
                   const struct vial_put_options *how, files_source *next,
                   void *context, struct vial_error *err)
{
    struct files_way w;
    int rc;

    if (begin_put(&w, session, path, how, err) < 0)
        return -1;
    rc = put_all(&w, next, context, err);
    return files_put_end(&w, rc == 0, err) < 0 ? -1 : rc;
}

struct fd_source {
    int fd;
    ssize_t got; /* by the last read */
    char *buf;
};

static int read_fd(void *context, const char **data, size_t *len)
{
    struct fd_source *s = context;

    s->got = io_read_all(s->fd, s->buf, PIECE);
    *data = s->buf;
    *len = s->got > 0 ? (size_t)s->got : 0;
    return s->got > 0 ? 1 : (int)s->got;
}

int vial_session_put_fd(struct vial_session *session, const char *path, int fd,
                        unsigned mode, struct vial_error *err)
{
    const struct vial_put_options how = { .mode = mode };
    auto_free char *buf = malloc(PIECE);
    struct fd_source from = { .fd = fd, .buf = buf };
    int rc;

    if (!buf)
        return fail_memory(err);
    rc = files_put_from(session, path, &how, read_fd, &from, err);
    return from.got < 0
               ? fail_sys_rc(err, (int)from.got, "read what goes to '%s'", path)
               : rc;
}

static int check_offset(struct vial_session *s, bool root, const char *path,
                        uint64_t offset, struct vial_error *err)
{
    struct vial_entry e;

    if (offset == 0)
        return 0;
    if (vial_session_stat_as(s, root, true, path, &e, err) < 0)
        return -1;
    vial_entry_done(&e);
    if (offset <= e.size)
        return 0;
    return fail(err, VIAL_E_OFFSET,
                "get '%s' from offset %" PRIu64 ": it has %" PRIu64 " bytes", path,
                offset, e.size);
}

/* Files of the host's lie in the working directory, the only place that is read. */
static bool shows_mounts(const struct plan *plan)
{
    for (size_t i = 0; i < plan->mount_count; i++)
        if (path_is_beneath(plan->mounts[i].target, plan->workdir) ||
            path_is_beneath(plan->workdir, plan->mounts[i].target))
            return true;
    return false;
}

uint64_t files_most(const struct vial_session *s, const char *path)
{
    const struct limits *l = &s->plan->limits;
    int64_t most = l->disk_bytes > l->tmp_bytes ? l->disk_bytes : l->tmp_bytes;

    if (*path == '/' || !l->disk_bytes || shows_mounts(s->plan) ||
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

/* NOLINTNEXTLINE(readability-function-size): a range, and whose it is */
static int begin_get(struct files_way *w, struct vial_session *s, bool root,
                     const char *path, uint64_t offset, uint64_t len,
                     struct vial_error *err)
{
    auto_free char *copy = files_inside(s, path);
    struct get_message m = { .path = copy, .offset = offset };

    *w = (struct files_way){ .session = s, .path = path, .verb = "get", .root = root };
    m.len = len > INT64_MAX ? 0 : len;
    w->left = m.len ? m.len : files_most(s, path);
    w->bounded = true;
    if (files_check_path(s, path, false, err) < 0 ||
        check_offset(s, root, path, offset, err) < 0)
        return -1;
    if (!copy)
        return fail_memory(err);
    return files_enter(w, &(struct files_ask){ .get = &m }, err);
}

int files_get_begin(struct files_way *w, struct vial_session *s, const char *path,
                    uint64_t offset, uint64_t len, struct vial_error *err)
{
    return begin_get(w, s, false, path, offset, len, err);
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
        size_t len = w->op.got.len;

        w->left -= len;
        str_move(out, &w->op.got);
        if (w->op.channel)
            link_consumed(s->talk.link, w->op.channel, 1, len);
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
    return vial_session_get_as(session, false, path, offset, len, data, got, err);
}

/* NOLINTNEXTLINE(readability-function-size): the same, and whose it is */
int vial_session_get_as(struct vial_session *session, bool root, const char *path,
                        uint64_t offset, uint64_t len, char **data, size_t *got,
                        struct vial_error *err)
{
    auto_str struct str all = { 0 };
    struct files_way w;
    int rc;

    if (begin_get(&w, session, root, path, offset, len, err) < 0)
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

int files_get_to(struct vial_session *session, const char *path, uint64_t offset,
                 uint64_t len, const struct files_sink *to, struct vial_error *err)
{
    auto_str struct str some = { 0 };
    struct files_way w;
    int rc;

    if (begin_get(&w, session, to->root, path, offset, len, err) < 0)
        return -1;
    while ((rc = files_get_some(&w, &some, err)) > 0) {
        int took = to->take(to->context, some.data, some.len);

        some.len = 0;
        if (took < 0) {
            rc = fail_sys_rc(err, took, "write what came from '%s'", path);
            break;
        }
    }
    files_get_end(&w);
    return rc;
}

static int write_fd(void *context, const char *data, size_t len)
{
    return io_write_all(*(const int *)context, data, len);
}

int vial_session_get_fd(struct vial_session *session, const char *path, uint64_t offset,
                        uint64_t len, int fd, struct vial_error *err)
{
    const struct files_sink to = { write_fd, &fd, false };

    return files_get_to(session, path, offset, len, &to, err);
}
