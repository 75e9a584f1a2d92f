/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/mount_hazards.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"

#define PASSWD_MAX ((size_t)16 << 20)

/* "name:x:UID:gid:gecos:HOME:shell". By hand: a static program has no NSS. */
static const char *home_in_line(char *line, const char *uid)
{
    char *fields[6] = { 0 };

    for (size_t i = 0; i < 6; i++)
        fields[i] = strsep(&line, ":");
    return fields[5] && strcmp(fields[2], uid) == 0 ? fields[5] : NULL;
}

/* malloc'ed; NULL: the file does not say. */
static char *home_in_passwd(void)
{
    struct vial_error ignored = { 0 };
    struct blob text = { 0 };
    const char *home = NULL;
    char *copy = NULL;
    char *rest = NULL;
    char *line = NULL;
    char uid[24];

    (void)snprintf(uid, sizeof(uid), "%u", getuid());
    if (io_read_file("/etc/passwd", PASSWD_MAX, &text, &ignored) < 0)
        return NULL;
    rest = text.data;
    while (!home && (line = strsep(&rest, "\n")))
        home = home_in_line(line, uid);
    copy = home ? strdup(home) : NULL;
    blob_done(&text);
    return copy;
}

static int refuse(const char *path, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_MOUNT, "mount source '%s' %s", path, why);
    return fail_remedy(err, "use a directory below it that holds only the work");
}

static bool overlaps(const char *a, const char *b)
{
    return path_is_beneath(a, b) || path_is_beneath(b, a);
}

int mount_home_check_state(const char *path, const char *own, struct vial_error *err)
{
    auto_free char *real = realpath(own, NULL); /* there may be links */

    if (overlaps(own, path) || (real && overlaps(real, path)))
        return refuse(path, "holds vial's own files and cannot be writable", err);
    return 0;
}

static int check_own(const char *path, const char *home, const char *below,
                     struct vial_error *err)
{
    auto_free char *own = path_join(home, below);

    return own ? mount_home_check_state(path, own, err) : fail_memory(err);
}

static int check_against(const char *path, bool writable, const char *home,
                         struct vial_error *err)
{
    auto_free char *real = realpath(home, NULL);

    if (!real) /* then there is nothing in it */
        return 0;
    if (path_is_beneath(real, path))
        return refuse(path, "is your home directory, or holds it", err);
    if (!writable)
        return 0;
    if (check_own(path, real, ".config/vial", err) < 0 ||
        check_own(path, real, ".cache/vial", err) < 0 ||
        check_own(path, real, ".local/share/vial", err) < 0)
        return -1;
    return check_own(path, real, ".local/state/vial", err);
}

int mount_home_check(const char *path, bool writable, const char *home,
                     struct vial_error *err)
{
    auto_free char *listed = home_in_passwd();
    auto_free char *cache = state_cache_path(home);

    if (writable && cache && mount_home_check_state(path, cache, err) < 0)
        return -1;
    if (home && home[0] == '/' && check_against(path, writable, home, err) < 0)
        return -1;
    if (!listed || listed[0] != '/')
        return 0;
    return check_against(path, writable, listed, err);
}

struct search {
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

static bool is_enough(const struct search *h)
{
    return *h->budget == 0 || h->found->count >= h->most || !strv_ok(h->found);
}

static void look_at(struct search *h, int dir_fd, const char *dir,
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

static void read_dir(struct search *h, int root_fd, const char *dir)
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

/* NOLINTNEXTLINE(readability-non-const-parameter): lowered by way of the search */
int sockets_find(int dir_fd, size_t *budget, size_t most, struct strv *found)
{
    struct search h = { .budget = budget, .most = most, .found = found };
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
