/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/sha256.h"
#include "base/state.h"
#include "base/sys.h"
#include "workspace/origin.h"

#define HEAD       "vial commit 1\n"
#define HEAD_LINES 3u
#define ASIDE      "bad-"
#define RECORD_MAX ((size_t)1 << 30)

static int append(struct journal *j, const struct str *text, struct vial_error *err)
{
    int rc = str_ok(text) ? io_write_all(j->fd, text->data, text->len) : -ENOMEM;

    if (rc == 0 && fsync(j->fd) < 0)
        rc = -errno;
    return rc < 0 ? fail_sys_rc(err, rc, "write the commit's record") : 0;
}

int journal_begin(struct journal *j, const char *state, const char *root,
                  const struct node *node, struct vial_error *err)
{
    auto_str struct str text = { 0 };

    j->dir_fd = state_open(state, "commits", true, err);
    if (j->dir_fd < 0)
        return -1;
    sys_make_id('c', j->name);
    (void)snprintf(j->stage, sizeof(j->stage), ORIGIN_STAGE "%s", j->name + 2);
    j->fd = openat(j->dir_fd, j->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (j->fd < 0 || flock(j->fd, LOCK_EX | LOCK_NB) < 0)
        return fail_sys(err, "make the commit's record");
    str_printf(&text, HEAD "stage %s\nroot %" PRId64 " %" PRId64 " %zu:%s\n", j->stage,
               (int64_t)node->device, (int64_t)node->ino, strlen(root), root);
    if (append(j, &text, err) < 0)
        return -1;
    return fsync(j->dir_fd) < 0 ? fail_sys(err, "write the commit's record") : 0;
}

struct op *journal_add(struct journal *j, enum op_kind kind, const char *path)
{
    struct ops *o = &j->ops;

    if (o->count == o->cap) {
        size_t cap = o->cap ? 2 * o->cap : 64;
        struct op *grown = reallocarray(o->items, cap, sizeof(*grown));

        if (!grown)
            return NULL;
        o->items = grown;
        o->cap = cap;
    }
    o->items[o->count] = (struct op){ .kind = kind, .path = strdup(path) };
    return o->items[o->count].path ? &o->items[o->count++] : NULL;
}

static void put_op(struct str *text, const struct op *op)
{
    str_printf(text,
               "%c %u %u %o %o %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
               " %zu:%s\n",
               (char)op->kind, op->staged, op->kept, op->mode, op->mode_before,
               op->old.type, (int64_t)op->old.device, (int64_t)op->old.ino,
               (int64_t)op->old.size, op->old.mtime_ns, strlen(op->path), op->path);
}

static void put_seal(struct str *text)
{
    struct sha256 hash;
    char hex[65];

    sha256_init(&hash);
    sha256_add(&hash, text->data, text->len);
    sha256_text(&hash, hex);
    str_printf(text, "apply %s\n", hex);
}

int journal_apply(struct journal *j, struct vial_error *err)
{
    auto_str struct str text = { 0 };

    for (size_t i = 0; i < j->ops.count; i++)
        put_op(&text, &j->ops.items[i]);
    str_puts(&text, "");
    put_seal(&text);
    return append(j, &text, err);
}

int journal_done(struct journal *j, struct vial_error *err)
{
    auto_str struct str text = { 0 };

    str_puts(&text, "done\n");
    return append(j, &text, err);
}

void journal_forget(struct journal *j)
{
    if (j->fd >= 0)
        (void)unlinkat(j->dir_fd, j->name, 0);
}

bool journal_is_aside(const char *name)
{
    return str_starts(name, ASIDE);
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* How many of NAMES are aside; *OLDEST is one of them, or NULL. */
static size_t count_aside(int dir_fd, const struct strv *names, const char **oldest)
{
    struct timespec since = { 0 };
    struct stat st;
    size_t count = 0;

    *oldest = NULL;
    for (size_t i = 0; i < names->count; i++) {
        if (!journal_is_aside(names->items[i]) ||
            fstatat(dir_fd, names->items[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        count++;
        if (!*oldest || is_before(&st.st_ctim, &since)) {
            *oldest = names->items[i];
            since = st.st_ctim;
        }
    }
    return count;
}

/* One goes for each that comes. */
static void prune_aside(int dir_fd)
{
    auto_strv struct strv names = { 0 };
    const char *oldest = NULL;

    if (tree_names(dir_fd, "", &names) == 0 &&
        count_aside(dir_fd, &names, &oldest) > JOURNAL_BAD_MOST)
        (void)unlinkat(dir_fd, oldest, 0);
}

int journal_put_aside(struct journal *j, struct vial_error *err)
{
    char name[sizeof(j->name) + sizeof(ASIDE)];

    (void)snprintf(name, sizeof(name), ASIDE "%s", j->name);
    if (renameat(j->dir_fd, j->name, j->dir_fd, name) < 0)
        return fail_sys(err, "put the record '%s' aside", j->name);
    prune_aside(j->dir_fd);
    (void)fail(err, VIAL_E_WORKSPACE,
               "the record '%s' of a commit to '%s' cannot be understood; it is called "
               "'%s' now",
               j->name, j->root ? j->root : "?", name);
    return fail_remedy(err,
                       "it lies in 'commits' of the state directory; what the commit "
                       "replaced may be in '%s' of that tree. This is said once",
                       j->stage[0] ? j->stage : ORIGIN_STAGE "…");
}

/* Reading. What lies here is our own writing, cut off at worst, or it is bad. */

struct reader {
    const char *at, *end;
};

static bool skip_text(struct reader *r, const char *text)
{
    size_t len = strlen(text);

    if ((size_t)(r->end - r->at) < len || memcmp(r->at, text, len) != 0)
        return false;
    r->at += len;
    return true;
}

/* A number and the byte behind it. */
static bool read_number(struct reader *r, int base, char behind, int64_t *out)
{
    char *end = NULL;

    if (r->at >= r->end)
        return false;
    errno = 0;
    *out = (int64_t)strtoll(r->at, &end, base); /* the text ends with a NUL */
    if (errno || end == r->at || end >= r->end || *end != behind)
        return false;
    r->at = end + 1;
    return true;
}

/* "LEN:BYTES\n"; malloc'ed or NULL. */
static char *read_path(struct reader *r)
{
    int64_t len = 0;
    char *path = NULL;

    if (!read_number(r, 10, ':', &len) || len < 0 || len >= r->end - r->at ||
        r->at[len] != '\n' || memchr(r->at, '\0', (size_t)len))
        return NULL;
    path = strndup(r->at, (size_t)len);
    r->at += len + 1;
    return path;
}

static bool read_numbers(struct reader *r, struct op *op)
{
    int64_t n[9];

    for (size_t i = 0; i < 9; i++)
        if (!read_number(r, i == 2 || i == 3 ? 8 : 10, ' ', &n[i]))
            return false;
    op->staged = (unsigned)n[0];
    op->kept = (unsigned)n[1];
    op->mode = (unsigned)n[2] & 0777;
    op->mode_before = (unsigned)n[3] & 07777;
    op->old = (struct node){ .type = (char)n[4],
                             .device = (uint64_t)n[5],
                             .ino = (uint64_t)n[6],
                             .size = (uint64_t)n[7],
                             .mtime_ns = n[8] };
    return true;
}

static bool read_op(struct journal *j, struct reader *r)
{
    struct op read = { .kind = (enum op_kind) * r->at };
    auto_free char *path = NULL;
    struct op *op = NULL;

    r->at++;
    if (!skip_text(r, " ") || !read_numbers(r, &read))
        return false;
    path = read_path(r);
    if (!path || !path_is_plain_relative(path, strlen(path)))
        return false;
    op = journal_add(j, read.kind, path);
    if (!op)
        return false;
    read.path = op->path;
    *op = read;
    return true;
}

static bool read_head(struct journal *j, struct reader *r)
{
    int64_t n = 0;
    const char *line = NULL;

    if (!skip_text(r, HEAD "stage " ORIGIN_STAGE))
        return false;
    line = memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (!line || line - r->at > 20 || memchr(r->at, '/', (size_t)(line - r->at)))
        return false;
    (void)snprintf(j->stage, sizeof(j->stage), ORIGIN_STAGE "%.*s", (int)(line - r->at),
                   r->at);
    r->at = line + 1;
    if (!skip_text(r, "root ") || !read_number(r, 10, ' ', &n))
        return false;
    j->dev = (uint64_t)n;
    if (!read_number(r, 10, ' ', &n))
        return false;
    j->ino = (uint64_t)n;
    j->root = read_path(r);
    return j->root && path_is_clean_absolute(j->root);
}

/* The ops count only if their seal is whole. */
static void read_ops(struct journal *j, struct reader *r)
{
    const char *from = r->at;
    auto_str struct str seal = { 0 };

    while (r->at < r->end && strchr("rdpc", *r->at) && read_op(j, r))
        ;
    str_add(&seal, from, (size_t)(r->at - from));
    if (!str_ok(&seal))
        return;
    if (seal.len == 0)
        str_puts(&seal, "");
    put_seal(&seal);
    j->apply = str_ok(&seal) && skip_text(r, seal.data + (r->at - from));
    j->done = j->apply && skip_text(r, "done\n");
}

/* After a power cut the end of a file may be zeros: it was not written. */
static size_t written(const struct blob *text)
{
    size_t len = text->len;

    while (len > 0 && text->data[len - 1] == '\0')
        len--;
    return len;
}

static size_t count_lines(const char *from, const char *end)
{
    size_t lines = 0;

    for (const char *at = from; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        lines++;
    return lines;
}

/* Whether the head begins otherwise, or is complete and does not say what it must. */
static bool is_bad_head(const char *text, const char *end)
{
    size_t len = (size_t)(end - text);
    size_t magic = strlen(HEAD);

    return memcmp(text, HEAD, len < magic ? len : magic) != 0 ||
           count_lines(text, end) >= HEAD_LINES;
}

static int read_record(struct journal *j, struct vial_error *err)
{
    struct blob text = { 0 };
    struct reader r;

    if (io_read_fd(j->fd, j->name, RECORD_MAX, &text, err) < 0)
        return -1;
    if (text.data) {
        r = (struct reader){ text.data, text.data + written(&text) };
        if (read_head(j, &r)) {
            read_ops(j, &r);
            /* Cut off, the last line has no end. */
            j->bad = (!j->apply || j->done) && count_lines(r.at, r.end) > 0;
        } else {
            j->bad = is_bad_head(text.data, text.data + written(&text));
        }
    }
    blob_done(&text);
    return 0;
}

int journal_open(struct journal *j, int dir_fd, const char *name,
                 struct vial_error *err)
{
    struct stat here;
    struct stat there;

    j->dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
    (void)snprintf(j->name, sizeof(j->name), "%s", name);
    j->fd = openat(dir_fd, j->name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (j->fd < 0 || flock(j->fd, LOCK_EX | LOCK_NB) < 0)
        return 0;
    /* The last holder of the lock may have removed the file just now. */
    if (fstat(j->fd, &here) < 0 || fstatat(dir_fd, j->name, &there, 0) < 0 ||
        here.st_ino != there.st_ino)
        return 0;
    return read_record(j, err) < 0 ? -1 : 1;
}

void journal_close(struct journal *j)
{
    for (size_t i = 0; i < j->ops.count; i++)
        free(j->ops.items[i].path);
    free(j->ops.items);
    free(j->root);
    auto_fd_(&j->fd);
    auto_fd_(&j->dir_fd);
    *j = (struct journal)JOURNAL_NONE;
}
