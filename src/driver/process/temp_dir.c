/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/process/temp_dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/remove_tree.h"
#include "base/str.h"
#include "base/sys.h"

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
    return fail_is(err, VIAL_E_OPEN) || err->sys == EACCES || err->sys == ENOTDIR ||
           err->sys == ELOOP;
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

/*
 * Programs of this driver run as the caller's own user, so that they can stop or
 * kill the guest, whose task it is to end them. This finds what is then left by
 * its traces: the vessel's directory in the environment it was started with, or
 * as its working directory. A program that has wiped both escapes; that is what
 * level "none" means.
 */

/* For what was killed to be gone, and for who is born meanwhile. */
#define PATIENCE_MS 5000
#define LOOK_MS     50 /* until the next round, if nothing ends before */
#define ENVIRON_MAX (256u << 10)

static bool works_in(int proc_fd, pid_t pid, const char *dir)
{
    char name[32], target[4096];
    ssize_t n;

    (void)snprintf(name, sizeof name, "%d/cwd", pid);
    n = readlinkat(proc_fd, name, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    return path_is_beneath(target, dir);
}

static bool was_started_in(int proc_fd, pid_t pid, const char *dir)
{
    auto_free char *data = malloc(ENVIRON_MAX);
    char name[32];
    ssize_t n;

    (void)snprintf(name, sizeof name, "%d/environ", pid);
    auto_fd int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !data)
        return false;
    n = read(fd, data, ENVIRON_MAX);
    return n > 0 && memmem(data, (size_t)n, dir, strlen(dir)) != NULL;
}

/* The descriptor holds the process that is judged, whoever gets its number. Gives that
 * of one that was killed, or -1. */
static int kill_if_ours(int proc_fd, const char *text, const char *dir)
{
    pid_t pid = (pid_t)strtol(text, NULL, 10);

    if (pid <= 1 || pid == getpid())
        return -1;
    auto_fd int fd = sys_pidfd_open(pid);
    if (fd < 0 || (!works_in(proc_fd, pid, dir) && !was_started_in(proc_fd, pid, dir)))
        return -1;
    return sys_pidfd_kill(fd, SIGKILL) == 0 ? fd_take(&fd) : -1;
}

/* One of those that were found and killed, or -1. */
static int sweep_once(const char *dir)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    int killed = -1;

    if (!proc)
        return -1;
    while ((entry = readdir(proc)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        int fd = isdigit((unsigned char)entry->d_name[0])
                     ? kill_if_ours(dirfd(proc), entry->d_name, dir)
                     : -1;

        if (fd >= 0) {
            auto_fd_(&killed);
            killed = fd;
        }
    }
    (void)closedir(proc);
    return killed;
}

/* Until none is found: what is killed is not gone before it has been run once more. */
void sweep_processes(const char *dir)
{
    int64_t until_ns = clock_now_ns() + INT64_C(1000000) * PATIENCE_MS;

    while (clock_now_ns() < until_ns) {
        auto_fd int killed = sweep_once(dir);
        struct pollfd end = { .fd = killed, .events = POLLIN };

        if (killed < 0)
            return;
        (void)poll(&end, 1, LOOK_MS);
    }
}
