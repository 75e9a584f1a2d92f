/* SPDX-License-Identifier: Apache-2.0 */

/* Operations on names below the workdir, done at once. As everywhere in the guest,
 * links are never followed; what a program renames meanwhile is its own. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/guest.h"

#define DEPTH_MAX 64 /* directories inside one another; each costs a descriptor */

/* Names below a directory, walked one component at a time, each opened without
 * following links. No component is "..", so that the walk can only go down:
 * what openat2's RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS promise, on every
 * kernel. The programs may rename underneath; they gain what they had. */

#define NAME_MAX_ 255
#define PATH_MAX_ 4096

static size_t component(const char *path)
{
    return strcspn(path, "/");
}

static bool is_plain(const char *path)
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

int below_parent(int dir_fd, const char *path, bool create, const char **name)
{
    char part[NAME_MAX_ + 1];
    int fd;

    if (dir_fd < 0)
        return -ENOENT;
    if (!is_plain(path))
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

int name_open_regular(int dir_fd, const char *name, bool follow)
{
    struct stat st;
    int fd, rc;

    if (weaken("links"))
        return openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fstatat(dir_fd, name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    rc = judge_mode(st.st_mode);
    if (rc < 0)
        return rc;
    fd = openat(dir_fd, name,
                O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
                    (follow ? 0 : O_NOFOLLOW));
    if (fd < 0)
        return -errno;
    rc = fstat(fd, &st) < 0 ? -errno : judge_mode(st.st_mode);
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

int below_open_file(int dir_fd, const char *path)
{
    const char *name;
    int parent = below_parent(dir_fd, path, false, &name);
    int fd;

    if (parent < 0)
        return parent;
    fd = name_open_regular(parent, name, false);
    (void)close(parent);
    return fd;
}

int below_open_dir(int dir_fd, const char *path)
{
    const char *name = ".";
    bool self = !*path || strcmp(path, ".") == 0;
    int parent = self ? dir_fd : below_parent(dir_fd, path, false, &name);
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

static int make_dir(int dir_fd, const char *name)
{
    struct stat st;

    if (mkdirat(dir_fd, name, 0755) == 0)
        return 0;
    if (errno != EEXIST || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno;
    return S_ISDIR(st.st_mode) ? 0 : EEXIST;
}

static int move(const struct guest *g, int dir_fd, const char *name, const char *to)
{
    const char *new_name = "";
    int to_fd = below_parent(g->workdir_fd, to, true, &new_name);
    int rc;

    if (to_fd < 0)
        return -to_fd;
    rc = renameat(dir_fd, name, to_fd, new_name) < 0 ? errno : 0;
    (void)close(to_fd);
    return rc;
}

static int remove_tree(int dir_fd, const char *name, int depth);

static int empty_dir(DIR *dir, int depth)
{
    const struct dirent *entry;
    int rc = 0;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the guest has one thread */
    while (rc == 0 && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = remove_tree(dirfd(dir), entry->d_name, depth + 1);
    return rc;
}

/* NOLINTNEXTLINE(misc-no-recursion): bounded */
static int remove_tree(int dir_fd, const char *name, int depth)
{
    DIR *dir;
    int fd, rc;

    if (unlinkat(dir_fd, name, 0) == 0 || (depth && errno == ENOENT))
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return errno;
    if (depth > DEPTH_MAX)
        return EMFILE;
    fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return ENOMEM;
    }
    rc = empty_dir(dir, depth);
    (void)closedir(dir);
    if (rc == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
        rc = errno;
    return rc;
}

static int remove_one(int dir_fd, const char *name)
{
    if (unlinkat(dir_fd, name, 0) == 0)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return errno;
    return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? errno : 0;
}

int name_change(int dir_fd, const char *name, uint32_t verb)
{
    if (verb == NAME_MKDIR)
        return make_dir(dir_fd, name);
    return verb == NAME_REMOVE ? remove_one(dir_fd, name)
                               : remove_tree(dir_fd, name, 0);
}

static int tell_stat(struct guest *g, struct job *j, int dir_fd, const char *name)
{
    char any[] = "entry"; /* the host knows which one it asked for */
    struct pack p = { 0 };
    int rc = ENOENT;

    files_pack_entry(&p, dir_fd, name, any);
    if (p.len) {
        stream_put(g, j, WIRE_DATA, 1, &p);
        stream_put(g, j, WIRE_EOF, 1, NULL);
        rc = 0;
    }
    pack_done(&p);
    return rc;
}

static int act(struct guest *g, struct job *j, const struct name_message *m, int dir_fd,
               const char *name)
{
    switch (m->verb) {
    case NAME_STAT:
        return tell_stat(g, j, dir_fd, name);
    case NAME_MOVE:
        return move(g, dir_fd, name, m->to);
    default:
        return name_change(dir_fd, name, m->verb);
    }
}

void names_do(struct guest *g, struct job *j, const struct name_message *m)
{
    const char *name = ".";
    bool self = m->verb == NAME_STAT && (!*m->path || strcmp(m->path, ".") == 0);
    int dir_fd, error;

    if (*m->path == '/') {
        exec_help(g, j, &(struct path_op){ .name = m });
        return;
    }
    dir_fd = self ? below_open_dir(g->workdir_fd, "")
                  : below_parent(g->workdir_fd, m->path, m->verb == NAME_MKDIR, &name);
    if (dir_fd < 0) {
        files_finish(g, j, -dir_fd, "path");
        return;
    }
    error = act(g, j, m, dir_fd, name);
    (void)close(dir_fd);
    files_finish(g, j, error, "name");
}
