/* SPDX-License-Identifier: Apache-2.0 */

/* Names below a directory, walked one component at a time, each opened without
 * following links. No component is "..", so that the walk can only go down:
 * what openat2's RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS promise, on every
 * kernel. The programs may rename underneath; they gain what they had. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/guest.h"

#define NAME_MAX_ 255
#define PATH_MAX_ 4096

static size_t component(const char *path)
{
    return strcspn(path, "/");
}

bool beneath_is_plain(const char *path)
{
    if (!*path || strlen(path) >= PATH_MAX_)
        return false;
    for (;;) {
        size_t len = component(path);

        if (!len || len > NAME_MAX_ || (len <= 2 && memcmp(path, "..", len) == 0))
            return false;
        if (!path[len])
            return true;
        path += len + 1;
    }
}

/* One directory further down; a link is told from what is merely no directory. */
static int step_down(int dir_fd, const char *name, bool create)
{
    struct stat st;
    int fd;

    if (create && mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(dir_fd, name,
                O_PATH | O_DIRECTORY | (weaken("links") ? 0 : O_NOFOLLOW) | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    if (errno == ENOTDIR && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISLNK(st.st_mode) ? -ELOOP : -ENOTDIR;
    return -errno;
}

int beneath_parent(int dir_fd, const char *path, bool create, const char **name)
{
    char part[NAME_MAX_ + 1];
    int fd;

    if (dir_fd < 0)
        return -ENOENT;
    if (!beneath_is_plain(path))
        return -EINVAL;
    fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return -errno;
    while (path[component(path)]) {
        size_t len = component(path);
        int next;

        memcpy(part, path, len);
        part[len] = 0;
        next = step_down(fd, part, create);
        (void)close(fd);
        if (next < 0)
            return next;
        fd = next;
        path += len + 1;
    }
    *name = path;
    return fd;
}

/* Looking before opening: opening a device or a pipe may already do something. */
static int judge_mode(mode_t mode)
{
    if (S_ISREG(mode))
        return 0;
    if (S_ISDIR(mode))
        return -EISDIR;
    return S_ISLNK(mode) ? -ELOOP : -EINVAL;
}

static int open_regular(int dir_fd, const char *name)
{
    struct stat st;
    int fd, rc;

    if (weaken("links"))
        return openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    rc = judge_mode(st.st_mode);
    if (rc < 0)
        return rc;
    fd =
        openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    rc = fstat(fd, &st) < 0 ? -errno : judge_mode(st.st_mode);
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

int beneath_open_file(int dir_fd, const char *path)
{
    const char *name;
    int parent = beneath_parent(dir_fd, path, false, &name);
    int fd;

    if (parent < 0)
        return parent;
    fd = open_regular(parent, name);
    (void)close(parent);
    return fd;
}

int beneath_open_dir(int dir_fd, const char *path)
{
    const char *name = ".";
    bool self = !*path || strcmp(path, ".") == 0;
    int parent = self ? dir_fd : beneath_parent(dir_fd, path, false, &name);
    int at, fd;

    if (parent < 0)
        return self ? -ENOENT : parent;
    at = step_down(parent, name, false);
    if (!self)
        (void)close(parent);
    if (at < 0)
        return at;
    fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = fd < 0 ? -errno : fd;
    (void)close(at);
    return fd;
}
