/* SPDX-License-Identifier: Apache-2.0 */

/* Whether a file has the largest size that a file may have: the kernel cuts a write
 * there, and tells the rest of it to the program only (SIGXFSZ, or EFBIG). So the files
 * that programs left are looked at, where the limit is smaller than what they lie in.
 */

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guest/guest.h"

#define DEPTH_MAX   32
#define ENTRIES_MAX 20000

struct search {
    uint64_t size;
    dev_t dev;
    unsigned left;
};

static bool finds(struct search *s, int dir_fd, const char *name, unsigned depth);

static bool finds_below(struct search *s, DIR *dir, unsigned depth)
{
    const struct dirent *entry = NULL;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the guest has one thread */
    while (s->left > 0 && (entry = readdir(dir))) {
        const char *name = entry->d_name;

        s->left--;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
            finds(s, dirfd(dir), name, depth))
            return true;
    }
    return false;
}

static bool finds_in(struct search *s, int dir_fd, const char *name, unsigned depth)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool found = false;

    if (dir) {
        found = finds_below(s, dir, depth);
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return found;
}

/* NOLINTNEXTLINE(misc-no-recursion): it has a depth */
static bool finds(struct search *s, int dir_fd, const char *name, unsigned depth)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != s->dev)
        return false;
    if (S_ISREG(st.st_mode))
        return (uint64_t)st.st_size == s->size;
    return S_ISDIR(st.st_mode) && depth < DEPTH_MAX &&
           finds_in(s, dir_fd, name, depth + 1);
}

bool largest_reached(const struct guest *g)
{
    uint64_t size = jail_rlimit(g, RLIMIT_FSIZE);

    for (size_t i = 0; i < g->watch.count; i++) {
        const struct watched *at = &g->watch.at[i];
        struct search s = { .size = size, .dev = at->dev, .left = ENTRIES_MAX };
        struct statfs fs;

        if (fstatfs(at->fd, &fs) < 0 ||
            size >= (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize)
            continue;
        if (finds_in(&s, at->fd, ".", 0))
            return true;
    }
    return false;
}
