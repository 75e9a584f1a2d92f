/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/sockets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"

struct hunt {
    struct strv dirs; /* to be read, relative; those before NEXT were */
    size_t next;
    dev_t dev;
    size_t *budget;
    size_t most;
    struct strv *found;
};

static unsigned char type_of(int dir_fd, const struct dirent *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    if (fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return DT_UNKNOWN;
    return (unsigned char)IFTODT(st.st_mode);
}

static bool is_enough(const struct hunt *h)
{
    return *h->budget == 0 || h->found->count >= h->most || !strv_ok(h->found);
}

static void look_at(struct hunt *h, int dir_fd, const char *dir,
                    const struct dirent *entry)
{
    unsigned char type = DT_UNKNOWN;

    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return;
    --*h->budget;
    type = type_of(dir_fd, entry);
    if (type == DT_DIR)
        strv_printf(&h->dirs, "%s/%s", dir, entry->d_name);
    if (type == DT_SOCK)
        strv_printf(h->found, "%s/%s", dir, entry->d_name);
}

static void read_dir(struct hunt *h, int root_fd, const char *dir)
{
    auto_fd int fd =
        openat(root_fd, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const struct dirent *entry = NULL;
    struct stat st;
    DIR *stream = NULL;

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != h->dev)
        return;
    stream = fdopendir(fd);
    if (!stream)
        return;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone */
    while (!is_enough(h) && (entry = readdir(stream)))
        look_at(h, fd, dir, entry);
    (void)fd_take(&fd);
    (void)closedir(stream);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): lowered by way of the hunt */
int sockets_find(int dir_fd, size_t *budget, size_t most, struct strv *found)
{
    struct hunt h = { .budget = budget, .most = most, .found = found };
    struct stat st;
    bool whole = false;

    if (fstat(dir_fd, &st) < 0)
        return 0;
    h.dev = st.st_dev;
    strv_push(&h.dirs, ".");
    while (strv_ok(&h.dirs) && h.next < h.dirs.count && !is_enough(&h))
        read_dir(&h, dir_fd, h.dirs.items[h.next++]);
    whole = strv_ok(&h.dirs) && strv_ok(found);
    strv_done(&h.dirs);
    return whole ? 0 : -ENOMEM;
}
