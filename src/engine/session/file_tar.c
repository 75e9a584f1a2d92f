/* SPDX-License-Identifier: Apache-2.0 */

/* Whole trees as tar archives. The archive is made and read here, on the host's
 * side; inside, only single files and directories move. */

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/tar.h"
#include "engine/session/file_bytes.h"

#define PIECE (64u << 10)

static int give(int fd, struct str *bytes, struct vial_error *err)
{
    int rc;

    if (bytes->failed)
        return fail_memory(err);
    rc = io_write_all(fd, bytes->data, bytes->len);
    bytes->len = 0;
    return rc < 0 ? fail_sys_rc(err, rc, "write the archive") : 0;
}

/* Exactly E->size bytes, whatever became of the file: a program may be writing
 * it. What is missing becomes zeros, as tar programs do. */
static int give_content(struct vial_session *s, const char *path,
                        const struct vial_entry *e, int fd, struct vial_error *err)
{
    static const char zeros[TAR_BLOCK];
    auto_str struct str some = { 0 };
    struct files_way w;
    uint64_t left = e->size;
    int rc = 1;

    if (files_get_begin(&w, s, path, 0, e->size, err) < 0)
        return -1;
    while (left > 0 && rc > 0 && (rc = files_get_some(&w, &some, err)) > 0) {
        if (some.len > left)
            some.len = (size_t)left;
        left -= some.len;
        rc = give(fd, &some, err) < 0 ? -1 : 1;
    }
    files_get_end(&w);
    left += (TAR_BLOCK - e->size % TAR_BLOCK) % TAR_BLOCK;
    while (left > 0 && rc >= 0) {
        size_t n = left < TAR_BLOCK ? (size_t)left : TAR_BLOCK;

        str_add(&some, zeros, n);
        left -= n;
        rc = give(fd, &some, err);
    }
    return rc < 0 ? -1 : 0;
}

static int give_entry(struct vial_session *s, const char *root,
                      const struct vial_entry *e, int fd, struct vial_error *err)
{
    auto_free char *path = files_join(root, e->path);
    auto_free char *name = NULL;
    auto_str struct str header = { 0 };
    bool is_dir = e->type == 'd';
    struct tar_entry t = { .type = is_dir ? '5' : '0',
                           .mode = e->mode,
                           .size = is_dir ? 0 : e->size,
                           .mtime = (int64_t)(e->mtime_ns / 1000000000) };

    name = is_dir ? files_join(e->path, "/") : strdup(e->path);
    if (!path || !name)
        return fail_memory(err);
    if (is_dir)
        name[strlen(name) - 1] = 0; /* one slash marks a directory */
    t.path = name;
    tar_write(&header, &t);
    if (give(fd, &header, err) < 0)
        return -1;
    return t.size > 0 ? give_content(s, path, e, fd, err) : 0;
}

/* Holes cost a program nothing, nor do further names of one file. */
static int check_sum(const struct vial_session *s, const char *root,
                     const struct vial_entries *all, struct vial_error *err)
{
    uint64_t left = files_most(s, root);
    uint64_t holes = 0;

    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].type != 'f')
            continue;
        holes += all->items[i].holes;
        if (all->items[i].size > left || holes > WIRE_HOLES_MAX) {
            (void)fail(
                err, VIAL_E_QUOTA,
                "pack '%s' and others: together they have more bytes than can be there",
                all->items[i].path);
            return fail_remedy(err,
                               "some have holes, or several names: pack them inside "
                               "('tar -S'), or fetch them one by one");
        }
        left -= all->items[i].size;
    }
    return 0;
}

int vial_session_export(struct vial_session *session, const char *path, int fd,
                        size_t *left_out, struct vial_error *err)
{
    auto_free char *root = files_name(path);
    struct vial_entries all = { 0 };
    struct str end = { 0 };
    size_t skipped = 0;
    int rc =
        root ? vial_session_list(session, path, true, &all, err) : fail_memory(err);

    if (rc == 0)
        rc = check_sum(session, root, &all, err);
    for (size_t i = 0; rc == 0 && i < all.count; i++) {
        if (all.items[i].type == 'f' || all.items[i].type == 'd')
            rc = give_entry(session, root, &all.items[i], fd, err);
        else
            skipped++;
    }
    vial_entries_free(&all);
    tar_write_end(&end);
    if (rc == 0)
        rc = give(fd, &end, err);
    str_done(&end);
    if (rc == 0 && left_out)
        *left_out = skipped;
    return rc;
}

static int take(int fd, char *buf, size_t len, struct vial_error *err)
{
    ssize_t n = io_read_all(fd, buf, len);

    if (n < 0)
        return fail_sys_rc(err, (int)n, "read the archive");
    if ((size_t)n < len)
        return fail(err, VIAL_E_TAR, "read the archive: it ends too early");
    return 0;
}

/* The content of the present entry, to W, or to nowhere. */
static int take_content(int fd, uint64_t size, struct files_way *w, char *buf,
                        struct vial_error *err)
{
    uint64_t whole = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;

    while (whole > 0) {
        size_t n = whole < PIECE ? (size_t)whole : PIECE;
        size_t wanted = size < n ? (size_t)size : n;

        if (take(fd, buf, n, err) < 0)
            return -1;
        if (w && wanted > 0 && files_put_some(w, buf, wanted, err) < 0)
            return -1;
        whole -= n;
        size -= wanted;
    }
    return 0;
}

static int take_file(struct vial_session *s, const struct tar_entry *e,
                     const char *path, int fd, char *buf, struct vial_error *err)
{
    struct files_way w;
    int rc;

    if (files_put_begin(&w, s, path, e->mode & 0777, err) < 0)
        return -1;
    rc = take_content(fd, e->size, &w, buf, err);
    return files_put_end(&w, rc == 0, err) < 0 ? -1 : rc;
}

/* "./" before and "/" behind, as tar programs write them, are taken off. */
static int take_entry(struct vial_session *s, struct tar_entry *e, const char *root,
                      int fd, char *buf, struct vial_error *err)
{
    auto_free char *path = NULL;
    const char *name = e->path;
    size_t len = strlen(name);

    while (name[0] == '.' && name[1] == '/') {
        name += 2;
        len -= 2;
    }
    if (len > 0 && e->type == '5' && name[len - 1] == '/')
        e->path[strlen(e->path) - 1] = 0;
    if (e->type == '5' && (!*name || str_eq(name, ".")))
        return take_content(fd, e->size, NULL, buf, err);
    if (e->type != '0' && e->type != '5')
        return fail(err, VIAL_E_TAR,
                    "take in '%s': neither a file nor a directory, but of type '%c'",
                    name, e->type);
    path = files_join(root, name);
    if (!path)
        return fail_memory(err);
    if (!path_is_plain_relative(name, strlen(name)))
        return fail(err, VIAL_E_TAR, "take in '%s': its name leads elsewhere", name);
    if (e->type == '0')
        return take_file(s, e, path, fd, buf, err);
    if (vial_session_mkdir(s, path, err) < 0)
        return -1;
    return take_content(fd, e->size, NULL, buf, err);
}

static int take_record(struct tar_reader *r, int fd, char *buf, struct vial_error *err)
{
    size_t len = (size_t)r->entry.size;
    size_t whole = (len + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;

    if (take(fd, buf, whole, err) < 0)
        return -1;
    return tar_extra(r, buf, len, err);
}

/* 1, 0 at the end, -1. */
static int take_next(struct vial_session *s, struct tar_reader *r, const char *root,
                     int fd, char *buf, struct vial_error *err)
{
    int rc = -1;

    if (take(fd, buf, TAR_BLOCK, err) < 0)
        return -1;
    switch (tar_step(r, buf, err)) {
    case TAR_END:
        return 0;
    case TAR_ENTRY:
        rc = take_entry(s, &r->entry, root, fd, buf, err);
        break;
    case TAR_MORE:
        rc = take_record(r, fd, buf, err);
        break;
    case TAR_SKIP:
        rc = take_content(fd, r->entry.size, NULL, buf, err);
        break;
    case TAR_BAD:
        break;
    }
    return rc < 0 ? -1 : 1;
}

int vial_session_import(struct vial_session *session, const char *path, int fd,
                        struct vial_error *err)
{
    auto_free char *root = files_name(path);
    auto_free char *buf = malloc(PIECE + TAR_BLOCK);
    struct tar_reader r = { 0 };
    int rc;

    if (!buf || !root)
        return fail_memory(err);
    if (files_check_path(session, path, true, err) < 0)
        return -1;
    while ((rc = take_next(session, &r, root, fd, buf, err)) > 0)
        ;
    tar_done(&r);
    return rc;
}
