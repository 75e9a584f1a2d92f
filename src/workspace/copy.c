/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "workspace/hand.h"

#define PIECE 65536

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
