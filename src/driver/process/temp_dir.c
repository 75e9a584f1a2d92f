/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/process/temp_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "driver/process/process.h"

#define PARENTS 16
#define TRIES   100 /* the parent is removed by whoever leaves it empty */

/* $TMPDIR/vial-UID, then vial-UID-1 …, for whoever finds another's there: the
 * same number in another user namespace, or someone who means ill. malloc'ed. */
static char *parent_path(unsigned turn)
{
    const char *base = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe) */
    struct str s = { 0 };

    str_printf(&s, "%s/vial-%u", base && path_is_clean_absolute(base) ? base : "/tmp",
               (unsigned)geteuid());
    if (turn > 0)
        str_printf(&s, "-%u", turn);
    return str_take(&s);
}

/* Opens the parent, locked. What someone else has put there is not used; nor is its
 * lock waited for, which they could hold for ever. */
static int open_parent(const char *path, struct vial_error *err)
{
    struct stat st;

    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        (void)fail_sys(err, "create directory '%s'", path);
        return fail_remedy(err, "set TMPDIR to a directory that you may write");
    }
    auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_sys(err, "open directory '%s'", path);
    if (st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        (void)fail(err, VIAL_E_OPEN, "directory '%s' is not private to this user",
                   path);
        return fail_remedy(err, "remove it, or set TMPDIR to a directory of your own");
    }
    if (flock(fd, LOCK_EX) < 0)
        return fail_sys(err, "lock directory '%s'", path);
    return fd_take(&fd);
}

/* The lock of directory NAME, or -1 when its maker lives. */
static int lock_dir(int parent_fd, const char *name)
{
    auto_fd int fd =
        openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -1;
    return fd_take(&fd);
}

static unsigned remove_abandoned(int parent_fd)
{
    int again = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    const struct dirent *entry;
    unsigned count = 0;

    if (!dir) {
        auto_fd_(&again);
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (entry->d_name[0] == '.')
            continue;
        auto_fd int lock_fd = lock_dir(parent_fd, entry->d_name);
        if (lock_fd >= 0) {
            remove_tree(parent_fd, entry->d_name);
            count++;
        }
    }
    (void)closedir(dir);
    return count;
}

/* 0, 1 when the parent vanished meanwhile, or -1. */
static int create_in(const char *parent, struct place *p, struct vial_error *err)
{
    auto_fd int parent_fd = open_parent(parent, err);
    char name[24];

    if (parent_fd < 0)
        return err->sys == ENOENT ? 1 : -1;
    (void)remove_abandoned(parent_fd);
    sys_make_id('p', name);
    if (mkdirat(parent_fd, name, 0700) < 0)
        return errno == ENOENT ? 1
                               : fail_sys(err, "create a directory in '%s'", parent);
    p->lock_fd = lock_dir(parent_fd, name);
    p->dir = path_join(parent, name);
    if (!p->dir)
        return fail_memory(err);
    if (p->lock_fd < 0 || mkdirat(p->lock_fd, "work", 0700) < 0 ||
        mkdirat(p->lock_fd, "tmp", 0700) < 0)
        return fail_sys(err, "prepare directory '%s'", p->dir);
    return 0;
}

static bool is_taken(const struct vial_error *err)
{
    return str_eq(err->code, fail_code_text(VIAL_E_OPEN)) || err->sys == EACCES ||
           err->sys == ENOTDIR || err->sys == ELOOP;
}

static int create_below(unsigned turn, struct place *p, struct vial_error *err)
{
    auto_free char *parent = parent_path(turn);
    int rc = 1;

    if (!parent)
        return fail_memory(err);
    for (int i = 0; rc > 0 && i < TRIES; i++)
        rc = create_in(parent, p, err);
    return rc;
}

int temp_dir_create(struct place *p, struct vial_error *err)
{
    struct vial_error why = { 0 };
    int rc = -1;

    for (unsigned turn = 0; turn < PARENTS; turn++) {
        rc = create_below(turn, p, &why);
        if (rc == 0 || !is_taken(&why))
            break;
    }
    if (rc == 0)
        return 0;
    if (err)
        *err = why;
    return -1;
}

void temp_dir_remove(struct place *p)
{
    char *name = p->dir ? strrchr(p->dir, '/') : NULL;

    if (name) {
        *name = '\0'; /* what is left is the parent's path */
        auto_fd int parent_fd = open(p->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (parent_fd >= 0)
            remove_tree(parent_fd, name + 1);
        (void)rmdir(p->dir); /* when it was the last */
    }
    auto_fd_(&p->lock_fd);
    free(p->dir);
    *p = (struct place)PLACE_NONE;
}

unsigned temp_dir_sweep(void)
{
    unsigned count = 0;

    for (unsigned turn = 0; turn < PARENTS; turn++) {
        auto_free char *path = parent_path(turn);
        auto_fd int fd = path && access(path, F_OK) == 0 ? open_parent(path, NULL) : -1;

        if (fd < 0)
            continue;
        count += remove_abandoned(fd);
        (void)rmdir(path); /* when it was the last */
    }
    return count;
}
