/* SPDX-License-Identifier: Apache-2.0 */
#include "base/remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/sys.h"

/*
 * Removing a tree that a hostile program made: it may be thousands of levels
 * deep, hold links anywhere and directories nobody may read. Instead of
 * descending, each directory found inside another is moved up beside it, so
 * that two descriptors suffice at any depth.
 */

struct removal {
    int root_fd;
    unsigned moved; /* names given so far */
    bool progress;
};

/* Opens directory NAME itself, made accessible if it was not; -1 when it is a
 * link, a mount, or no directory. */
static int open_dir(int parent_fd, const char *name)
{
    char path[32];
    auto_fd int fd =
        sys_openat2(parent_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0,
                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);

    if (fd < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    (void)chmod(path, 0700);
    return openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void move_up(struct removal *r, int dir_fd, const char *name)
{
    char fresh[32];
    int rc;
    auto_fd int fd = open_dir(dir_fd, name); /* to move it, it must be writable */

    if (fd < 0)
        return;
    do {
        (void)snprintf(fresh, sizeof fresh, "%u.up", r->moved++);
        rc = sys_rename_new(dir_fd, name, r->root_fd, fresh);
    } while (rc == -EEXIST);
    if (rc == 0)
        r->progress = true;
}

static bool is_dots(const char *name)
{
    return str_eq(name, ".") || str_eq(name, "..");
}

/* Takes ownership of DIR_FD. Calls EACH for every directory in it, and removes
 * everything else. */
static void clear_dir(struct removal *r, int dir_fd,
                      void (*each)(struct removal *, int, const char *))
{
    DIR *dir = fdopendir(dir_fd);
    const struct dirent *entry;

    if (!dir) {
        (void)close(dir_fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (is_dots(entry->d_name))
            continue;
        if (unlinkat(dir_fd, entry->d_name, 0) == 0)
            r->progress = true;
        else if (errno == EISDIR || errno == EPERM)
            each(r, dir_fd, entry->d_name);
    }
    (void)closedir(dir);
}

static void remove_dir(struct removal *r, int dir_fd, const char *name)
{
    int fd;

    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0) {
        r->progress = true;
        return;
    }
    fd = open_dir(dir_fd, name);
    if (fd < 0)
        return;
    clear_dir(r, fd, move_up);
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
        r->progress = true;
}

void remove_tree(int parent_fd, const char *name)
{
    struct removal r = { .progress = true };
    auto_fd int root_fd = open_dir(parent_fd, name);

    r.root_fd = root_fd;
    while (root_fd >= 0 && r.progress) {
        int again = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        r.progress = false;
        if (again >= 0)
            clear_dir(&r, again, remove_dir);
    }
    (void)unlinkat(parent_fd, name, AT_REMOVEDIR);
}
