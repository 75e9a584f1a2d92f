/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/lower.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"

enum seen { FOUND, LOOK_BELOW, HIDDEN };

void lowers_done(struct lowers *l)
{
    for (size_t i = 0; i < l->count; i++)
        (void)close(l->fds[i]);
    l->count = 0;
}

bool lower_is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

bool lower_is_opaque(int dir_fd)
{
    char value[2] = "";

    return fgetxattr(dir_fd, OPAQUE_XATTR, value, 1) == 1 && value[0] == 'y';
}

/* One component, in the directory *FD, which is replaced by the one it names. OPAQUE:
 * one of those above hides what lies below. */
static enum seen enter(int *fd, const char *name, bool opaque)
{
    struct stat st;
    int next;

    if (fstatat(*fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT && !opaque ? LOOK_BELOW : HIDDEN;
    if (!S_ISDIR(st.st_mode)) /* a file, a link, or a whiteout */
        return HIDDEN;
    next = openat(*fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0)
        return HIDDEN;
    (void)close(*fd);
    *fd = next;
    return FOUND;
}

static enum seen look(int layer_fd, const char *path, struct stat *st, int *dir_fd,
                      const char **name)
{
    auto_fd int fd = openat(layer_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool opaque = false;
    const char *slash;

    if (fd < 0)
        return HIDDEN;
    for (; (slash = strchr(path, '/')); path = slash + 1) {
        char part[NAME_MAX + 1];
        size_t len = (size_t)(slash - path);
        enum seen seen;

        if (len > NAME_MAX)
            return HIDDEN;
        memcpy(part, path, len);
        part[len] = '\0';
        seen = enter(&fd, part, opaque);
        if (seen != FOUND)
            return seen;
        opaque = opaque || lower_is_opaque(fd);
    }
    if (fstatat(fd, path, st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT && !opaque ? LOOK_BELOW : HIDDEN;
    if (lower_is_whiteout(st))
        return HIDDEN;
    *dir_fd = fd_take(&fd);
    *name = path;
    return FOUND;
}

bool lower_find(const struct lowers *l, const char *path, struct stat *st, int *dir_fd,
                const char **name)
{
    for (size_t i = l->count; i > 0; i--) {
        enum seen seen = look(l->fds[i - 1], path, st, dir_fd, name);

        if (seen != LOOK_BELOW)
            return seen == FOUND;
    }
    return false;
}
