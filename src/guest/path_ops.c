/* SPDX-License-Identifier: Apache-2.0 */

/* File operations at absolute paths. Each is done by a process of its own, which has
 * been confined as programs are: its user, its rules, its filter. So it may follow
 * links, and reaches what programs reach, and nothing else. It speaks by its pipes, and
 * its exit code is an errno, or 0. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "guest/guest.h"

#define LINKS_MAX 40 /* as the kernel's */
#define PATH_MAX_ 4096
#define PIECE     (64u << 10)

/* The host gave up: what is half there must go. The guest sends the signal before it
 * closes the pipe that we read. */
static bool is_given_up(void)
{
    sigset_t waiting;

    return sigpending(&waiting) == 0 && sigismember(&waiting, SIGTERM) == 1;
}

static void take_signals(void)
{
    sigset_t term;

    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &term, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a write says so */
}

struct place {
    char path[PATH_MAX_];
};

/* LEN bytes of TEXT behind AT of what P has. -ENAMETOOLONG: they do not fit. */
static int set_from(struct place *p, size_t at, const char *text, size_t len)
{
    if (at + len >= sizeof p->path)
        return -ENAMETOOLONG;
    memmove(p->path + at, text, len);
    p->path[at + len] = 0;
    return 0;
}

/* PATH is absolute. Of "/" the name is ".". */
static const char *last_of(const char *path)
{
    const char *name = strrchr(path, '/') + 1;

    return *name ? name : ".";
}

/* Where PATH's last component lies, or -errno. */
static int open_parent(const char *path)
{
    size_t len = (size_t)(strrchr(path, '/') - path);
    struct place dir;
    int fd = set_from(&dir, 0, path, len);

    if (fd < 0)
        return fd;
    fd = open(len ? dir.path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* What cannot be made is told when it is opened. */
static int make_parent(const char *path)
{
    struct place dir;
    int fd = open_parent(path);

    if (fd != -ENOENT || set_from(&dir, 0, path, strlen(path)) < 0)
        return fd;
    for (char *at = strchr(dir.path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        (void)mkdir(dir.path, 0755);
        *at = '/';
    }
    return open_parent(path);
}

/* The directory of the file that P means, whose last component is no link any more.
 * Missing directories are made. */
static int open_target(struct place *p)
{
    char target[PATH_MAX_];

    for (int links = 0; links <= LINKS_MAX; links++) {
        const char *path = p->path;
        int fd = make_parent(path);
        ssize_t n = fd < 0 ? -1 : readlinkat(fd, last_of(path), target, sizeof target);
        int rc;

        if (fd < 0 || n <= 0)
            return fd;
        (void)close(fd);
        rc = set_from(p, *target == '/' ? 0 : (size_t)(strrchr(path, '/') + 1 - path),
                      target, (size_t)n);
        if (rc < 0)
            return rc;
    }
    return -ELOOP;
}

/* Standard input to FD, up to its end. */
static int take_input(int fd)
{
    char buf[PIECE];
    int rc = 0;

    while (rc == 0) {
        ssize_t n = read(0, buf, sizeof buf);

        if (n == 0)
            return is_given_up() ? -ECANCELED : 0;
        if (n > 0)
            rc = files_write_all(fd, buf, (size_t)n);
        else if (errno != EINTR)
            rc = -errno;
    }
    return rc;
}

/* Where nothing can be made beside it, as for a file that is shown by itself. */
static int overwrite(int dir_fd, const char *name, const struct put_message *m)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
    int rc = fd < 0 ? -errno : attributes_write(fd, m->attributes);

    if (rc == 0)
        rc = take_input(fd);

    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static int put_at(int dir_fd, const char *name, const struct put_message *m)
{
    struct stat old = { 0 };
    char temp[32];
    bool is_there = fstatat(dir_fd, name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    int fd, rc;

    if (is_there && !S_ISREG(old.st_mode))
        return S_ISDIR(old.st_mode) ? -EISDIR : -EINVAL;
    fd = files_make_temp(dir_fd, (unsigned)getpid(), temp, files_put_mode(m, &old));
    if ((fd == -EACCES || fd == -EROFS || fd == -EPERM) && is_there)
        return overwrite(dir_fd, name, m);
    if (fd < 0)
        return fd;
    files_keep_owner(fd, &old);
    rc = attributes_write(fd, m->attributes);
    if (rc == 0)
        rc = take_input(fd);
    (void)close(fd);
    if (rc == 0 && renameat(dir_fd, temp, dir_fd, name) < 0)
        rc = -errno;
    if (rc < 0)
        (void)unlinkat(dir_fd, temp, 0);
    return rc;
}

static int put(const struct put_message *m)
{
    struct place p;
    int dir_fd, rc = set_from(&p, 0, m->path, strlen(m->path));

    if (rc < 0)
        return rc;
    dir_fd = open_target(&p);
    if (dir_fd < 0)
        return dir_fd;
    rc = put_at(dir_fd, last_of(p.path), m);
    (void)close(dir_fd);
    return rc;
}

static int get(const struct get_message *m)
{
    char buf[PIECE];
    uint64_t left = 0;
    int fd = name_open_regular(AT_FDCWD, m->path, true);
    int rc = fd < 0 ? fd : files_begin_get(fd, m, &left);

    while (rc == 0 && left > 0) {
        ssize_t n = read(fd, buf, least(left, sizeof buf));

        if (n < 0 && errno != EINTR)
            rc = -errno;
        if (n == 0)
            break; /* it has become shorter */
        if (n > 0)
            rc = files_write_all(1, buf, (size_t)n);
        left -= n > 0 ? (uint64_t)n : 0;
    }
    return rc;
}

static int send_pack(struct pack *p)
{
    int rc = files_write_all(1, p->data, p->len);

    p->len = 0;
    return rc;
}

static int watch(const struct watch_message *m)
{
    int fd = open(m->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : -dir_watch_run(fd, m->flags);
}

static int list(const char *path)
{
    DIR *dir = opendir(path);
    struct pack p = { 0 };
    struct dirent *entry;
    int rc = 0;

    if (!dir)
        return -errno;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the helper has one thread */
    while (rc == 0 && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            files_pack_entry(&p, dirfd(dir), entry->d_name, entry->d_name);
            rc = p.len < PIECE ? 0 : send_pack(&p);
        }
    return rc == 0 ? send_pack(&p) : rc;
}

static int stat_one(int dir_fd, const char *name)
{
    char any[] = "entry";
    struct pack p = { 0 };

    files_pack_entry(&p, dir_fd, name, any);
    return p.len ? send_pack(&p) : -ENOENT;
}

/* Of a file that may be read, its holes as well. */
static int stat_followed(const char *path)
{
    int fd = name_open_regular(AT_FDCWD, path, true);

    fd = fd < 0 ? open(path, O_PATH | O_CLOEXEC) : fd;
    return fd < 0 ? -errno : stat_one(fd, "");
}

/* As far as we may: times and attributes are not worth a failure. */
static void copy_attributes(int from, int to, const struct stat *st)
{
    const struct timespec times[2] = { st->st_atim, st->st_mtim };
    char names[PIECE], value[PATH_MAX_];
    ssize_t len = flistxattr(from, names, sizeof names);

    for (const char *at = names; len > 0 && at < names + len; at += strlen(at) + 1) {
        ssize_t n = fgetxattr(from, at, value, sizeof value);

        if (n >= 0)
            (void)fsetxattr(to, at, value, (size_t)n, 0);
    }
    files_keep_owner(to, st);
    (void)fchmod(to, st->st_mode & 07777); /* a change of owners clears some */
    (void)futimens(to, times);
}

static int copy_bytes(int from, int to)
{
    char buf[PIECE];
    ssize_t n;
    int rc = 0;

    while (rc == 0 && (n = read(from, buf, sizeof buf)) != 0)
        rc = n > 0 ? files_write_all(to, buf, (size_t)n) : errno == EINTR ? 0 : -errno;
    return rc;
}

/* To another file system, where a name cannot go by itself. Files only. */
static int move_far(int dir_fd, const char *name, int to_fd, const char *to)
{
    int from = name_open_regular(dir_fd, name, false);
    char temp[32];
    struct stat st;
    int fd, rc;

    if (from < 0)
        return from == -EISDIR || from == -ELOOP ? -EXDEV : from;
    if (fstat(from, &st) < 0)
        return -errno;
    fd = files_make_temp(to_fd, (unsigned)getpid(), temp, 0600);
    if (fd < 0)
        return fd;
    rc = copy_bytes(from, fd);
    copy_attributes(from, fd, &st);
    (void)close(fd);
    if (rc == 0 && renameat(to_fd, temp, to_fd, to) < 0)
        rc = -errno;
    if (rc < 0)
        (void)unlinkat(to_fd, temp, 0);
    return rc == 0 && unlinkat(dir_fd, name, 0) < 0 ? -errno : rc;
}

static int move(int dir_fd, const char *name, const char *to)
{
    int to_fd = make_parent(to);

    if (to_fd < 0)
        return to_fd;
    if (renameat(dir_fd, name, to_fd, last_of(to)) == 0)
        return 0;
    return errno == EXDEV ? move_far(dir_fd, name, to_fd, last_of(to)) : -errno;
}

static int do_name(const struct name_message *m)
{
    const char *name = last_of(m->path);
    int dir_fd;

    if (m->verb == NAME_FOLLOW)
        return stat_followed(m->path);
    dir_fd = m->verb == NAME_MKDIR ? make_parent(m->path) : open_parent(m->path);
    if (dir_fd < 0)
        return dir_fd;
    switch (m->verb) {
    case NAME_STAT:
        return stat_one(dir_fd, name);
    case NAME_MOVE:
        return move(dir_fd, name, m->to);
    default:
        return -name_change(dir_fd, name, m->verb);
    }
}

static bool is_good(const char *path)
{
    return *path == '/' && strlen(path) < PATH_MAX_;
}

static bool are_good(const struct path_op *op)
{
    if (op->name && op->name->verb == NAME_MOVE && !is_good(op->name->to))
        return false;
    return is_good(op->put     ? op->put->path
                   : op->get   ? op->get->path
                   : op->name  ? op->name->path
                   : op->watch ? op->watch->path
                               : op->list);
}

static int act(const struct path_op *op)
{
    if (!are_good(op))
        return -EINVAL;
    if (op->put)
        return put(op->put);
    if (op->get)
        return get(op->get);
    if (op->name)
        return do_name(op->name);
    return op->watch ? watch(op->watch) : list(op->list);
}

_Noreturn void path_op_run(const struct guest *g, const struct path_op *op,
                           const struct child_pipes *pipes)
{
    char top[] = "/";
    int rc;

    child_prepare(g, &(struct exec_message){ .cwd = top }, pipes);
    take_signals();
    (void)close(STATUS_FD); /* which says that it has begun */
    rc = confine_as_program(&g->jail);
    _exit(-(rc < 0 ? rc : act(op)));
}
