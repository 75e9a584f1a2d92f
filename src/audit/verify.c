/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "audit/log_files.h"
#include "base/fail.h"
#include "base/json.h"

struct walk {
    struct audit_report *report;
    const struct audit_mark *anchor;
    bool anchored;
    const struct head *head;
    const char *file; /* the one being read */
    char prev[65];    /* hash of the line before; "" before the first */
    bool at_head;     /* the newest record is the one the head names */
};

__attribute__((format(printf, 2, 3))) static int wrong(struct walk *w,
                                                       const char *format, ...)
{
    va_list args;

    if (!w->report->whole)
        return 1;
    va_start(args, format);
    (void)vsnprintf(w->report->problem, sizeof(w->report->problem), format, args);
    va_end(args);
    w->report->whole = false;
    return 1;
}

static int check_place(struct walk *w, uint64_t seq, const char *prev, uint64_t offset)
{
    struct audit_report *r = w->report;

    if (r->records == 0) {
        r->first = seq;
        if (seq != w->head->first)
            return wrong(w, "the log begins with record %" PRIu64 " and not %" PRIu64,
                         seq, w->head->first);
        return 0;
    }
    if (strcmp(prev, w->prev) != 0)
        return wrong(w,
                     "record %" PRIu64 " does not follow the one before it (%s, byte "
                     "%" PRIu64 "): something was edited, removed or moved",
                     seq, w->file, offset);
    if (seq != r->newest.seq + 1)
        return wrong(w, "record %" PRIu64 " follows record %" PRIu64 " (%s)", seq,
                     r->newest.seq, w->file);
    return 0;
}

static int check_line(void *context, const char *line, size_t len, uint64_t offset)
{
    struct walk *w = context;
    auto_json json_t *record = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    const char *prev = json_string_value(json_object_get(record, "prev"));
    uint64_t seq = (uint64_t)json_integer_value(json_object_get(record, "seq"));

    if (!prev || seq == 0)
        return wrong(w, "%s, byte %" PRIu64 ": not a record", w->file, offset);
    if (check_place(w, seq, prev, offset) != 0)
        return 1;
    line_hash(line, len, w->prev);
    w->report->records++;
    w->report->newest.seq = seq;
    memcpy(w->report->newest.hash, w->prev, sizeof(w->prev));
    if (w->anchor && w->anchor->seq == seq)
        w->anchored = strcmp(w->anchor->hash, w->prev) == 0;
    if (seq == w->head->newest.seq)
        w->at_head = strcmp(w->prev, w->head->newest.hash) == 0;
    return 0;
}

/* Half a line at the very end is what a writer left that died just now. */
static int check_file(struct walk *w, const char *path, bool newest,
                      struct vial_error *err)
{
    auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    uint64_t end = 0;

    w->file = path;
    if (fd < 0 && errno == ENOENT) {
        (void)wrong(w, "'%s' is missing", path);
        return 0;
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_sys(err, "open '%s'", path);
    w->report->files++;
    if (lines_read(fd, path, &end, check_line, w, err) < 0)
        return -1;
    if (w->report->whole && !newest && end != (uint64_t)st.st_size)
        (void)wrong(w, "'%s' ends within a record", path);
    if (w->report->whole && end + AUDIT_LINE_MAX < (uint64_t)st.st_size)
        (void)wrong(w, "%s, byte %" PRIu64 ": a record is too long", path, end);
    return 0;
}

static void check_ends(struct walk *w)
{
    const struct head *head = w->head;

    if (head->newest.seq > w->report->newest.seq)
        (void)wrong(w,
                    "the log ends with record %" PRIu64 ", and its head names record "
                    "%" PRIu64 ": the end was cut off",
                    w->report->newest.seq, head->newest.seq);
    else if (head->newest.seq && !w->at_head)
        (void)wrong(w, "record %" PRIu64 " is not the one its head names",
                    head->newest.seq);
    else if (w->report->newest.seq > head->newest.seq + AUDIT_AHEAD)
        (void)wrong(w,
                    "the log ends with record %" PRIu64 ", and its head names record "
                    "%" PRIu64 ": the head was emptied or put back, and the end may "
                    "be missing",
                    w->report->newest.seq, head->newest.seq);
    else if (w->anchor && !w->anchored)
        (void)wrong(w, "record %" PRIu64 " is not the one with the hash that was given",
                    w->anchor->seq);
}

/* Under a shared lock, so that no writer is half way. */
static int open_head_shared(const char *path, struct head *head, struct vial_error *err)
{
    auto_free char *name = head_name(path);
    auto_fd int fd = name ? open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;

    if (!name)
        return fail_memory(err);
    if (fd < 0) {
        (void)fail_sys(err, "open '%s'", name);
        return fail_remedy(err, "name the log itself; '.head' lies beside it");
    }
    if (flock(fd, LOCK_SH) < 0)
        return fail_sys(err, "lock '%s'", name);
    if (head_read(fd, path, head, err) < 0)
        return -1;
    return fd_take(&fd);
}

int audit_verify(const char *path, const struct audit_mark *anchor,
                 struct audit_report *out, struct vial_error *err)
{
    struct head head;
    auto_fd int lock = open_head_shared(path, &head, err);
    struct walk w = { .report = out, .anchor = anchor, .head = &head };

    *out = (struct audit_report){ .whole = true };
    if (lock < 0)
        return -1;
    for (unsigned n = head.first_file; n <= head.file && out->whole; n++) {
        auto_free char *older = older_name(path, n);

        if (!older)
            return fail_memory(err);
        if (check_file(&w, older, false, err) < 0)
            return -1;
    }
    if (out->whole && check_file(&w, path, true, err) < 0)
        return -1;
    if (out->whole)
        check_ends(&w);
    return 0;
}

struct reading {
    audit_see *see;
    void *context;
    bool enough;
};

static int pass_line(void *context, const char *line, size_t len, uint64_t offset)
{
    struct reading *r = context;

    (void)offset;
    r->enough = r->see(r->context, line, len) != 0;
    return r->enough;
}

static int read_one(struct reading *r, const char *path, struct vial_error *err)
{
    auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
    uint64_t at = 0;

    if (fd < 0)
        return fail_sys(err, "open '%s'", path);
    return lines_read(fd, path, &at, pass_line, r, err);
}

int audit_read(const char *path, audit_see *see, void *context, struct vial_error *err)
{
    struct reading r = { .see = see, .context = context };
    struct head head;
    auto_fd int lock = open_head_shared(path, &head, err);

    if (lock < 0)
        return -1;
    for (unsigned n = head.first_file; n <= head.file && !r.enough; n++) {
        auto_free char *older = older_name(path, n);

        if (!older)
            return fail_memory(err);
        if (read_one(&r, older, err) < 0)
            return -1;
    }
    return r.enough ? 0 : read_one(&r, path, err);
}
