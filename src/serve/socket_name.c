/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/socket_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/sys.h"

#define BACKLOG 1024
#define TRIES   8 /* against others that come and go at the same moment */

/* A name in a directory, and one beside it that is ours alone. */
struct spot {
    const char *path; /* for messages */
    const char *name;
    char aside[40];
    int dir_fd;
};

static int elsewhere(struct vial_error *err)
{
    return fail_remedy(err, "choose another place by --listen unix:PATH");
}

static int taken(const struct spot *s, struct vial_error *err)
{
    (void)fail(err, VIAL_E_DAEMON, "another daemon listens on '%s'", s->path);
    return fail_remedy(err, "stop it, or choose another place by --listen unix:PATH");
}

/* A directory that nobody else can put things into. */
static int check_dir(const char *dir, const struct stat *st, struct vial_error *err)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        (void)fail(err, VIAL_E_DAEMON, "directory '%s' is another user's", dir);
    else if ((st->st_mode & S_IWOTH) && !(st->st_mode & S_ISVTX))
        (void)fail(err, VIAL_E_DAEMON, "directory '%s' can be written by all", dir);
    else
        return 0;
    return elsewhere(err);
}

/* Its descriptor; made if need be, for those alone who may use the socket. */
static int open_dir(const char *path, mode_t mode, struct vial_error *err)
{
    size_t len = (size_t)(strrchr(path, '/') - path);
    auto_free char *dir = strndup(path, len ? len : 1);
    auto_fd int fd = -1;
    struct stat st;

    if (!dir)
        return fail_memory(err);
    if (mkdir(dir, mode & S_IROTH ? 0755 : 0700) < 0 && errno != EEXIST) {
        (void)fail_sys(err, "make directory '%s'", dir);
        return elsewhere(err);
    }
    fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)fail(err, VIAL_E_DAEMON, "'%s' is not a directory", dir);
        return elsewhere(err);
    }
    return check_dir(dir, &st, err) < 0 ? -1 : fd_take(&fd);
}

/* By way of its directory, since an address has room for a short name only. */
static void address_of(const struct spot *s, const char *name, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    (void)snprintf(out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d/%s",
                   s->dir_fd, name);
}

static bool listens(const struct spot *s, const char *name)
{
    auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un at;

    address_of(s, name, &at);
    return fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 ||
           (errno != ECONNREFUSED && errno != ENOENT);
}

/* -EEXIST when there is something under TO. */
static int move(const struct spot *s, const char *from, const char *to)
{
    int rc = sys_rename_new(s->dir_fd, from, s->dir_fd, to);

    if (rc != -EINVAL && rc != -ENOSYS)
        return rc;
    if (linkat(s->dir_fd, from, s->dir_fd, to, 0) < 0)
        return -errno;
    (void)unlinkat(s->dir_fd, from, 0);
    return 0;
}

/* It is dead, unless another daemon put its own there since we looked: hence it is
 * moved away, looked at once more, and put back. */
static int remove_dead(const struct spot *s, struct vial_error *err)
{
    char gone[sizeof(s->aside) + 4];

    (void)snprintf(gone, sizeof(gone), "%s.old", s->aside);
    if (renameat(s->dir_fd, s->name, s->dir_fd, gone) < 0) {
        if (errno == ENOENT)
            return 0;
        (void)fail_sys(err, "remove '%s'", s->path);
        return elsewhere(err);
    }
    if (listens(s, gone)) {
        (void)move(s, gone, s->name);
        return taken(s, err);
    }
    (void)unlinkat(s->dir_fd, gone, 0);
    return 0;
}

static int clear_way(const struct spot *s, struct vial_error *err)
{
    struct stat st;

    if (fstatat(s->dir_fd, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode)) {
        (void)fail(err, VIAL_E_DAEMON, "'%s' is in the way, and not a socket", s->path);
        return elsewhere(err);
    }
    return listens(s, s->name) ? taken(s, err) : remove_dead(s, err);
}

static int take_name(const struct spot *s, struct vial_error *err)
{
    int rc = -EEXIST;

    for (int i = 0; i < TRIES && rc == -EEXIST; i++) {
        rc = move(s, s->aside, s->name);
        if (rc == -EEXIST && clear_way(s, err) < 0)
            return -1;
    }
    if (rc == -EEXIST)
        return taken(s, err);
    return rc < 0 ? fail_sys_rc(err, rc, "listen on '%s'", s->path) : 0;
}

/* It listens before it has its name. Who connects is looked at in any case; the mode
 * only spares others the try. */
static int listen_aside(const struct spot *s, int fd, mode_t mode, struct stat *made,
                        struct vial_error *err)
{
    struct sockaddr_un at;

    address_of(s, s->aside, &at);
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 &&
        listen(fd, BACKLOG) == 0 && fchmodat(s->dir_fd, s->aside, mode, 0) == 0 &&
        fstatat(s->dir_fd, s->aside, made, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    (void)fail_sys(err, "listen on '%s'", s->path);
    (void)fail_as(err, VIAL_E_DAEMON);
    return elsewhere(err);
}

int socket_name_take(int fd, const char *path, mode_t mode, struct stat *made,
                     struct vial_error *err)
{
    auto_fd int dir_fd = open_dir(path, mode, err);
    struct spot s = { .path = path, .name = strrchr(path, '/') + 1, .dir_fd = dir_fd };
    char id[24];
    int rc;

    if (dir_fd < 0)
        return -1;
    sys_make_id('s', id);
    (void)snprintf(s.aside, sizeof(s.aside), ".vial-%s", id);
    rc = listen_aside(&s, fd, mode, made, err);
    if (rc == 0)
        rc = take_name(&s, err);
    if (rc < 0)
        (void)unlinkat(dir_fd, s.aside, 0);
    return rc;
}

void socket_name_leave(const char *path, const struct stat *made)
{
    struct stat now;

    if (lstat(path, &now) == 0 && now.st_dev == made->st_dev &&
        now.st_ino == made->st_ino)
        (void)unlink(path);
}
