/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "audit/log_files.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"

#define ROTATE_USUAL ((uint64_t)64 << 20)
#define RUN_BYTES    ((uint64_t)2 * AUDIT_LINE_MAX) /* its begin and its end */

struct audit {
    char *path;
    int log_fd, head_fd; /* the head is also the lock */
    pthread_mutex_t lock;
    uint64_t rotate_bytes;
    unsigned keep_files;
    bool lazy;
};

static int no_record(struct vial_error *err, int rc, const char *what, const char *path)
{
    (void)fail_sys_rc(err, rc, "%s '%s'", what, path);
    (void)fail_as(err, VIAL_E_AUDIT);
    return fail_remedy(err, "make the audit log's directory, or room in it; nothing is "
                            "run that cannot be recorded");
}

/* O_RDWR also for the log, so that it can be checked and cut. */
static int open_file(const char *path, struct vial_error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
    struct stat st;

    if (fd < 0)
        return no_record(err, -errno, "open", path);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    (void)close(fd);
    return fail(err, VIAL_E_AUDIT, "'%s' is not a regular file", path);
}

static int open_head(const char *path, struct vial_error *err)
{
    auto_free char *name = head_name(path);

    return name ? open_file(name, err) : fail_memory(err);
}

/* One writer at a time, among threads and processes. */
static int lock(struct audit *a, struct vial_error *err)
{
    int rc;

    (void)pthread_mutex_lock(&a->lock);
    do
        rc = flock(a->head_fd, LOCK_EX);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return 0;
    rc = -errno;
    (void)pthread_mutex_unlock(&a->lock);
    return no_record(err, rc, "lock", a->path);
}

static void unlock(struct audit *a)
{
    (void)flock(a->head_fd, LOCK_UN);
    (void)pthread_mutex_unlock(&a->lock);
}

/* Another process may have put a new file at PATH. */
static int follow_rotation(struct audit *a, struct vial_error *err)
{
    struct stat mine;
    struct stat now;
    int fd;

    if (fstat(a->log_fd, &mine) == 0 && lstat(a->path, &now) == 0 &&
        mine.st_ino == now.st_ino && mine.st_dev == now.st_dev)
        return 0;
    fd = open_file(a->path, err);
    if (fd < 0)
        return -1;
    (void)close(a->log_fd);
    a->log_fd = fd;
    return 0;
}

/* The record as a line. Members stay in the order they were put in. */
static char *render(const struct head *head, json_t *record)
{
    auto_json json_t *whole = json_object();
    char time[CLOCK_STAMP_SIZE];
    char *line;

    clock_stamp(time, 6);
    (void)json_object_set_new(whole, "seq",
                              json_integer((json_int_t)head->newest.seq + 1));
    (void)json_object_set_new(whole, "time", json_string(time));
    (void)json_object_set_new(whole, "prev", json_string(head->newest.hash));
    if (json_object_update(whole, record) < 0)
        return NULL;
    line = json_dumps(whole, JSON_COMPACT | JSON_ENSURE_ASCII);
    return line;
}

static int put_line(struct audit *a, const struct head *head, const char *line,
                    size_t len)
{
    auto_free char *text = malloc(len + 1);
    size_t done = 0;

    if (!text)
        return -ENOMEM;
    memcpy(text, line, len);
    text[len] = '\n';
    while (done < len + 1) {
        ssize_t put =
            pwrite(a->log_fd, text + done, len + 1 - done, (off_t)(head->size + done));

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            int rc = put < 0 ? -errno : -ENOSPC;

            (void)!ftruncate(a->log_fd, (off_t)head->size);
            return rc;
        }
        done += (size_t)put;
    }
    if (!a->lazy && fdatasync(a->log_fd) < 0)
        return -errno;
    return 0;
}

/* The record first, then the head: after a crash the log may be ahead of its
 * head by one record, never behind. */
static int append_locked(struct audit *a, struct head *head, json_t *record,
                         struct vial_error *err)
{
    auto_free char *line = render(head, record);
    size_t len = line ? strlen(line) : 0;
    int rc;

    if (!line)
        return fail_memory(err);
    if (len >= AUDIT_LINE_MAX)
        return fail(err, VIAL_E_AUDIT, "a record of %zu bytes is too long", len);
    rc = put_line(a, head, line, len);
    if (rc < 0)
        return no_record(err, rc, "append to", a->path);
    line_hash(line, len, head->newest.hash);
    head->newest.seq++;
    head->size += len + 1;
    rc = head_write(a->head_fd, head);
    if (rc == 0 && !a->lazy && fdatasync(a->head_fd) < 0)
        rc = -errno;
    return rc < 0 ? no_record(err, rc, "write the head of", a->path) : 0;
}

static int forget_oldest(struct audit *a, struct head *head, struct vial_error *err);

/* The next file begins with a record of its own, so that the chain is not only
 * carried by the names. */
static int rotate(struct audit *a, struct head *head, struct vial_error *err)
{
    auto_free char *older = older_name(a->path, head->file + 1);
    auto_json json_t *record = NULL;
    int fd;

    if (!older)
        return fail_memory(err);
    if (rename(a->path, older) < 0)
        return no_record(err, -errno, "rotate", a->path);
    fd = open_file(a->path, err);
    if (fd < 0)
        return -1;
    (void)close(a->log_fd);
    a->log_fd = fd;
    head->file++;
    head->size = 0;
    if (forget_oldest(a, head, err) < 0)
        return -1;
    record = json_pack("{s:s, s:i}", "event", "rotated", "files", (int)head->file);
    return record ? append_locked(a, head, record, err) : fail_memory(err);
}

struct oldest {
    uint64_t seq;
};

static int take_seq(void *context, const char *line, size_t len, uint64_t offset)
{
    struct oldest *oldest = context;
    auto_json json_t *record = json_loadb(line, len, 0, NULL);

    (void)offset;
    oldest->seq = (uint64_t)json_integer_value(json_object_get(record, "seq"));
    return 1;
}

static int first_seq(const char *path, uint64_t *seq, struct vial_error *err)
{
    auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct oldest oldest = { 0 };
    uint64_t at = 0;

    if (fd < 0)
        return no_record(err, -errno, "open", path);
    if (lines_read(fd, path, &at, take_seq, &oldest, err) < 0)
        return -1;
    *seq = oldest.seq;
    return 0;
}

/* The head says which record is the oldest, so that a file which was taken away
 * by someone else is missed. */
static int forget_oldest(struct audit *a, struct head *head, struct vial_error *err)
{
    while (a->keep_files && head->file - head->first_file + 1 > a->keep_files) {
        auto_free char *gone = older_name(a->path, head->first_file);
        auto_free char *next = older_name(a->path, head->first_file + 1);

        if (!gone || !next)
            return fail_memory(err);
        if (first_seq(next, &head->first, err) < 0)
            return -1;
        head->first_file++;
        if (unlink(gone) < 0 && errno != ENOENT)
            return no_record(err, -errno, "remove", gone);
    }
    return 0;
}

/* The log's writer may have died. Whole lines that it left behind the head's place go
 * on the chain; half a line is cut off. */
struct catching_up {
    struct head *head;
    uint64_t records;
    bool broken;
};

static int catch_up(void *context, const char *line, size_t len, uint64_t offset)
{
    struct catching_up *c = context;
    auto_json json_t *record = json_loadb(line, len, 0, NULL);
    const char *prev = json_string_value(json_object_get(record, "prev"));

    if (!prev || strcmp(prev, c->head->newest.hash) != 0) {
        c->broken = true;
        return 1;
    }
    line_hash(line, len, c->head->newest.hash);
    c->head->newest.seq++;
    c->head->size = offset + len + 1;
    c->records++;
    return 0;
}

static int differs(const struct audit *a, struct vial_error *err)
{
    (void)fail(err, VIAL_E_AUDIT, "'%s' is not what its head says", a->path);
    return fail_remedy(err,
                       "someone has changed it: see 'vial audit verify %s'; move "
                       "log and head away to begin a new one",
                       a->path);
}

/* A death between renaming the log and writing the head. */
static void finish_rotation(const struct audit *a, struct head *head,
                            const struct stat *st)
{
    auto_free char *older = older_name(a->path, head->file + 1);
    struct stat moved;

    if (older && (uint64_t)st->st_size < head->size && lstat(older, &moved) == 0 &&
        (uint64_t)moved.st_size == head->size) {
        head->file++;
        head->size = 0;
    }
}

static int mend(struct audit *a, struct head *head, struct vial_error *err)
{
    struct catching_up c = { .head = head };
    auto_json json_t *record = NULL;
    struct stat st;
    uint64_t end;

    if (fstat(a->log_fd, &st) < 0)
        return no_record(err, -errno, "look at", a->path);
    if ((uint64_t)st.st_size == head->size)
        return 0;
    finish_rotation(a, head, &st);
    if ((uint64_t)st.st_size < head->size)
        return differs(a, err);
    end = head->size;
    if (lines_read(a->log_fd, a->path, &end, catch_up, &c, err) < 0)
        return -1;
    if (c.broken)
        return differs(a, err);
    /* One record ahead is what a death leaves; more is a head that was put back, or a
     * power cut on a lazy log. */
    if (end == (uint64_t)st.st_size && c.records <= AUDIT_AHEAD)
        return 0;
    if (end < (uint64_t)st.st_size && ftruncate(a->log_fd, (off_t)end) < 0)
        return no_record(err, -errno, "mend", a->path);
    record = json_pack("{s:s, s:I, s:I}", "event", "mended", "cut_bytes",
                       (json_int_t)((uint64_t)st.st_size - end), "ahead",
                       (json_int_t)c.records);
    return record ? append_locked(a, head, record, err) : fail_memory(err);
}

/* Under the lock: where the log stands. */
static int enter(struct audit *a, struct head *head, struct vial_error *err)
{
    if (follow_rotation(a, err) < 0 || head_read(a->head_fd, a->path, head, err) < 0)
        return -1;
    return mend(a, head, err);
}

int audit_append(struct audit *a, json_t *record, struct vial_error *err)
{
    struct head head;
    int rc;

    if (lock(a, err) < 0)
        return -1;
    rc = enter(a, &head, err);
    if (rc == 0 && head.size >= a->rotate_bytes)
        rc = rotate(a, &head, err);
    if (rc == 0)
        rc = append_locked(a, &head, record, err);
    unlock(a);
    return rc;
}

/* A file system that cannot keep room is asked by how much it has free. */
int audit_reserve(struct audit *a, unsigned count, struct vial_error *err)
{
    uint64_t bytes = count * RUN_BYTES;
    struct head head;
    int rc;

    if (lock(a, err) < 0)
        return -1;
    rc = enter(a, &head, err);
    if (rc == 0 &&
        fallocate(a->log_fd, FALLOC_FL_KEEP_SIZE, (off_t)head.size, (off_t)bytes) < 0 &&
        errno != EOPNOTSUPP)
        rc = no_record(err, -errno, "keep room in", a->path);
    unlock(a);
    return rc;
}

static int begin(struct audit *a, struct vial_error *err)
{
    struct head head;
    int rc;

    if (lock(a, err) < 0)
        return -1;
    rc = enter(a, &head, err);
    unlock(a);
    return rc;
}

int audit_open(const struct audit_options *options, struct audit **out,
               struct vial_error *err)
{
    auto_audit struct audit *a = calloc(1, sizeof(*a));

    if (!a)
        return fail_memory(err);
    a->log_fd = a->head_fd = -1;
    (void)pthread_mutex_init(&a->lock, NULL);
    a->rotate_bytes = options->rotate_bytes ? options->rotate_bytes : ROTATE_USUAL;
    a->keep_files = options->keep_files;
    a->lazy = options->lazy;
    a->path = strdup(options->path);
    if (!a->path)
        return fail_memory(err);
    a->head_fd = open_head(a->path, err);
    if (a->head_fd < 0)
        return -1;
    a->log_fd = open_file(a->path, err);
    if (a->log_fd < 0 || begin(a, err) < 0)
        return -1;
    *out = ptr_take(&a);
    return 0;
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    auto_fd_(&a->log_fd);
    auto_fd_(&a->head_fd);
    (void)pthread_mutex_destroy(&a->lock);
    free(a->path);
    free(a);
}
