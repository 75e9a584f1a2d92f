/* SPDX-License-Identifier: Apache-2.0 */
#include "images/store_ids.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/state.h"

#define MARK     "ids"
#define MARK_NEW "ids.new"

static int open_store(const char *store_dir)
{
    return open(store_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* 1, 0 without a mark, or -1: with one that says nothing. */
static int read_mark(int store_fd, struct subids *out)
{
    char text[64];
    char more = 0;
    ssize_t n = io_read_at(store_fd, MARK, text, sizeof(text));
    int got;

    if (n <= 0)
        return n == -ENOENT ? 0 : -1;
    /* NOLINTNEXTLINE(cert-err34-c): out of range is another's */
    got = sscanf(text, "%u %u%c", &out->first_uid, &out->first_gid, &more);
    return got == 2 ? 1 : -1;
}

static bool is_same(const struct subids *a, const struct subids *b)
{
    return a->first_uid == b->first_uid && a->first_gid == b->first_gid;
}

bool store_ids_hold(const char *store_dir, struct subids *out)
{
    auto_fd int fd = open_store(store_dir);
    struct subids marked = { 0 };
    char why[160];

    return fd >= 0 && read_mark(fd, &marked) == 1 && subids_find(out, why) &&
           is_same(out, &marked);
}

static bool has_layers(int store_fd)
{
    int fd =
        openat(store_fd, "layers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    bool any = fd >= 0 && !dir;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this stream */
    while (dir && !any && (entry = readdir(dir)))
        any = entry->d_name[0] != '.';
    if (dir)
        (void)closedir(dir);
    return any;
}

static int write_mark(int store_fd, const struct subids *ids, struct vial_error *err)
{
    auto_fd int fd =
        openat(store_fd, MARK_NEW,
               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    char text[64];
    int n = snprintf(text, sizeof(text), "%u %u\n", ids->first_uid, ids->first_gid);
    int rc = fd < 0 ? -errno : io_write_all(fd, text, (size_t)n);

    if (rc == 0 && (fsync(fd) < 0 || renameat(store_fd, MARK_NEW, store_fd, MARK) < 0))
        rc = -errno;
    return rc < 0 ? fail_sys_rc(err, rc, "mark the image store") : 0;
}

static int refuse(const char *store_dir, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_FILE,
               "the image store's files are of a range of ids that cannot be mapped");
    (void)fail_cause(err, "%s", why[0] ? why : "the user has another one now");
    return fail_remedy(err,
                       "give it back ('%.120s/" MARK "' says where it begins), or "
                       "have root remove the store",
                       store_dir);
}

int store_ids_mark(const char *store_dir, const struct subids *ids,
                   struct vial_error *err)
{
    auto_fd int fd = -1;

    if (state_make_dir(store_dir, err) < 0)
        return -1;
    fd = open_store(store_dir);
    return fd < 0 ? fail_sys(err, "open the image store '%s'", store_dir)
                  : write_mark(fd, ids, err);
}

int store_ids_look(const char *store_dir, struct subids *out, struct vial_error *err)
{
    auto_fd int fd = -1;
    struct subids marked = { 0 };
    char why[160] = "";
    bool found = subids_find(out, why);
    int rc;

    if (geteuid() == 0)
        return STORE_ONE;
    fd = open_store(store_dir);
    if (fd < 0 && errno != ENOENT)
        return fail_sys(err, "open the image store '%s'", store_dir);
    rc = fd < 0 ? 0 : read_mark(fd, &marked);
    if (rc > 0 && found && is_same(out, &marked))
        return STORE_RANGED;
    if (rc != 0)
        return refuse(store_dir, why, err);
    return found && (fd < 0 || !has_layers(fd)) ? STORE_EMPTY : STORE_ONE;
}
