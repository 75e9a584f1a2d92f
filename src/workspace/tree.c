/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/sys.h"
#include "workspace/hand.h"

#define BENEATH                                                                        \
    (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)
#define PIECE 65536

int tree_open(int root_fd, const char *path, int flags)
{
    return sys_openat2(root_fd, *path ? path : ".",
                       (unsigned)(flags | O_CLOEXEC | O_NOFOLLOW), 0, BENEATH);
}

int tree_open_parent(int root_fd, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    auto_free char *dir = slash ? strndup(path, (size_t)(slash - path)) : strdup("");

    if (!dir)
        return -ENOMEM;
    *name = slash ? slash + 1 : path;
    return tree_open(root_fd, dir, O_PATH | O_DIRECTORY);
}

static char type_of(const struct stat *st)
{
    if (S_ISREG(st->st_mode))
        return 'f';
    if (S_ISDIR(st->st_mode))
        return 'd';
    if (S_ISLNK(st->st_mode))
        return 'l';
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0) ? 'w' : 'o';
}

static int64_t ns_of(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static int look_at(int fd, struct node *out)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    *out = (struct node){ .type = type_of(&st),
                          .mode = st.st_mode & 07777,
                          .size = (uint64_t)st.st_size,
                          .mtime_ns = ns_of(&st.st_mtim),
                          .ctime_ns = ns_of(&st.st_ctim),
                          .ino = st.st_ino,
                          .device = st.st_dev };
    return 0;
}

int tree_look(int root_fd, const char *path, struct node *out)
{
    auto_fd int fd = tree_open(root_fd, path, O_PATH);

    *out = (struct node){ 0 };
    /* A name below a link, or on another file system, is not in this tree. */
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV)
        return 0;
    return fd < 0 ? fd : look_at(fd, out);
}

int tree_open_file(int root_fd, const char *path, struct node *into)
{
    /* A FIFO would wait for its other end, a lease for its holder. */
    auto_fd int fd = tree_open(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct node node = { 0 };
    int rc = fd < 0 ? fd : look_at(fd, &node);

    if (rc < 0)
        return rc;
    if (node.type != 'f')
        return node.type == 'd' ? -EISDIR : -EINVAL;
    if (into)
        *into = node;
    return fd_take(&fd);
}

char *tree_link(int root_fd, const char *path)
{
    auto_fd int fd = tree_open(root_fd, path, O_PATH);
    char text[4096];
    ssize_t len = fd < 0 ? -1 : readlinkat(fd, "", text, sizeof(text));

    return len <= 0 || (size_t)len >= sizeof(text) ? NULL : strndup(text, (size_t)len);
}

int tree_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int tree_names(int root_fd, const char *path, struct strv *out)
{
    int fd = tree_open(root_fd, path, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry = NULL;

    if (fd < 0)
        return fd;
    if (!dir) {
        (void)close(fd);
        return -ENOMEM;
    }
    /* readdir is safe here: nobody else has this stream. */
    while ((entry = readdir(dir))) /* NOLINT(concurrency-mt-unsafe) */
        if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
            strv_push(out, entry->d_name);
    (void)closedir(dir);
    if (!strv_ok(out))
        return -ENOMEM;
    if (out->count > 1)
        qsort(out->items, out->count, sizeof(*out->items), tree_compare);
    return 0;
}

static int remove_one(int root_fd, const char *path, int flags)
{
    const char *name = NULL;
    auto_fd int dir_fd = tree_open_parent(root_fd, path, &name);

    if (dir_fd < 0)
        return dir_fd;
    return unlinkat(dir_fd, name, flags) < 0 ? -errno : 0;
}

static int remove_below(int root_fd, struct str *path)
{
    auto_strv struct strv names = { 0 };
    int rc = remove_one(root_fd, path->data, 0);

    if (rc != -EISDIR && rc != -EPERM)
        return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
    rc = tree_names(root_fd, path->data, &names);
    for (size_t i = 0; rc == 0 && i < names.count; i++) {
        size_t len = tree_enter(path, names.items[i]);

        rc = str_ok(path) ? remove_below(root_fd, path) : -ENOMEM;
        tree_leave(path, len);
    }
    return rc < 0 ? rc : remove_one(root_fd, path->data, AT_REMOVEDIR);
}

int tree_remove(int root_fd, const char *path)
{
    auto_str struct str at = { 0 };
    int rc = 0;

    str_puts(&at, path);
    rc = str_ok(&at) && at.data ? remove_below(root_fd, &at) : -ENOMEM;
    return rc == -ENOENT ? 0 : rc;
}

size_t tree_enter(struct str *path, const char *name)
{
    size_t len = path->len;

    if (len > 0)
        str_putc(path, '/');
    str_puts(path, name);
    return len;
}

void tree_leave(struct str *path, size_t len)
{
    if (!path->failed) {
        path->len = len;
        path->data[len] = '\0';
    }
}

bool tree_holds(const char *dir, const char *path)
{
    size_t len = strlen(dir);

    return len == 0 ||
           (strncmp(dir, path, len) == 0 && (path[len] == '/' || path[len] == '\0'));
}

/* SIZE bytes from offset AT on. 1 when there were fewer. */
static int copy_range(int from, int to, off_t at, uint64_t size)
{
    char piece[PIECE];

    if (lseek(from, at, SEEK_SET) < 0 || lseek(to, at, SEEK_SET) < 0)
        return -errno;
    while (size > 0) {
        size_t want = size < sizeof(piece) ? (size_t)size : sizeof(piece);
        ssize_t n = io_read_all(from, piece, want);
        int rc = n < 0 ? (int)n : io_write_all(to, piece, (size_t)n);

        if (rc < 0 || n == 0)
            return rc < 0 ? rc : 1;
        size -= (uint64_t)n;
    }
    return 0;
}

/* A file that grows while it is copied is cut at the size it had. Holes stay holes:
 * they cost the layer nothing, and could fill the disk that they are copied to. */
int copy_bytes(int from, int to, uint64_t size)
{
    uint64_t at = 0;
    int rc = 0;

    while (rc == 0 && at < size) {
        off_t data = lseek(from, (off_t)at, SEEK_DATA);
        off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
        uint64_t end = hole > data && (uint64_t)hole < size ? (uint64_t)hole : size;

        if (data < 0 && errno == ENXIO) /* nothing but a hole is left */
            break;
        if (data >= 0)
            at = (uint64_t)data;
        if (at < end)
            rc = copy_range(from, to, (off_t)at, end - at);
        at = end;
    }
    if (rc == 0 && ftruncate(to, (off_t)size) < 0)
        rc = -errno;
    return rc < 0 ? rc : 0;
}

bool copy_same(int a, int b)
{
    char x[8192];
    char y[8192];
    ssize_t n = 0;

    do {
        n = io_read_all(a, x, sizeof(x));
        if (n < 0 || io_read_all(b, y, sizeof(y)) != n ||
            (n > 0 && memcmp(x, y, (size_t)n) != 0))
            return false;
    } while (n > 0);
    return true;
}

int copy_time(int fd, const struct node *node)
{
    struct timespec t = { .tv_sec = node->mtime_ns / 1000000000,
                          .tv_nsec = node->mtime_ns % 1000000000 };
    struct timespec times[2] = { t, t };

    return futimens(fd, times) < 0 ? -errno : 0;
}

int copy_mode(int root_fd, const char *path, unsigned mode)
{
    auto_fd int fd = tree_open(root_fd, path, O_PATH);
    char link[40];

    if (fd < 0)
        return fd;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return chmod(link, mode) < 0 ? -errno : 0;
}

static int make_file(int to_fd, const char *path, uid_t id)
{
    auto_hand struct hand own = hand_become(id);
    const char *name = NULL;
    auto_fd int dir_fd = tree_open_parent(to_fd, path, &name);
    int fd = dir_fd;

    if (dir_fd >= 0)
        fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    return fd < 0 && dir_fd >= 0 ? -errno : fd;
}

static int copy_file(int from_fd, int to_fd, const char *path, uid_t id)
{
    struct node node;
    auto_fd int from = tree_open_file(from_fd, path, &node);
    auto_fd int to = from < 0 ? -1 : make_file(to_fd, path, id);
    int rc = from < 0 ? from : to < 0 ? to : copy_bytes(from, to, node.size);
    auto_hand struct hand own = hand_become(id);

    if (rc == 0 && fchmod(to, node.mode & 0777) < 0)
        rc = -errno;
    return rc < 0 ? rc : copy_time(to, &node);
}

static int copy_link(int from_fd, int to_fd, const char *path, uid_t id)
{
    auto_free char *target = tree_link(from_fd, path);
    auto_hand struct hand own = hand_become(id);
    const char *name = NULL;
    auto_fd int dir_fd = tree_open_parent(to_fd, path, &name);

    if (!target || dir_fd < 0)
        return dir_fd < 0 ? dir_fd : -ENOENT;
    return symlinkat(target, dir_fd, name) < 0 ? -errno : 0;
}

static int copy_dir(int to_fd, const char *path, unsigned mode, uid_t id)
{
    auto_hand struct hand own = hand_become(id);
    const char *name = NULL;
    auto_fd int dir_fd = tree_open_parent(to_fd, path, &name);

    if (dir_fd < 0)
        return dir_fd;
    if (mkdirat(dir_fd, name, 0700) < 0)
        return -errno;
    return copy_mode(to_fd, path, 0700 | (mode & 0777));
}

int copy_node(int from_fd, int to_fd, const char *path, const struct node *node,
              uid_t id)
{
    if (node->type == 'd')
        return copy_dir(to_fd, path, node->mode, id);
    if (node->type == 'l')
        return copy_link(from_fd, to_fd, path, id);
    return node->type == 'f' ? copy_file(from_fd, to_fd, path, id) : -EINVAL;
}
