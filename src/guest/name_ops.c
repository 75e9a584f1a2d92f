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
    const char *new_name;
    int to_fd = beneath_parent(g->workdir_fd, to, true, &new_name);
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
    case NAME_MKDIR:
        return make_dir(dir_fd, name);
    case NAME_MOVE:
        return move(g, dir_fd, name, m->to);
    case NAME_REMOVE:
        return remove_one(dir_fd, name);
    default:
        return remove_tree(dir_fd, name, 0);
    }
}

void names_do(struct guest *g, struct job *j, const struct name_message *m)
{
    const char *name = ".";
    bool self = m->verb == NAME_STAT && (!*m->path || strcmp(m->path, ".") == 0);
    int dir_fd =
        self ? beneath_open_dir(g->workdir_fd, "")
             : beneath_parent(g->workdir_fd, m->path, m->verb == NAME_MKDIR, &name);
    int error;

    if (dir_fd < 0) {
        files_finish(g, j, -dir_fd, "path");
        return;
    }
    error = act(g, j, m, dir_fd, name);
    (void)close(dir_fd);
    files_finish(g, j, error, "name");
}
