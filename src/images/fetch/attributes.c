/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/attributes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "images/fetch/image_work.h"

bool attributes_keep(const char *name)
{
    return str_eq(name, "security.capability") ||
           (str_starts(name, "user.") && !str_starts(name, "user.overlay."));
}

static int refuse(const char *path, const char *why, struct vial_error *err)
{
    return fail(err, VIAL_E_IMAGE_BAD, "the entry '%.200s' has %s", path, why);
}

int attributes_read(struct archive_entry *e, const char *path, struct attributes *out,
                    struct vial_error *err)
{
    int64_t uid = archive_entry_uid(e);
    int64_t gid = archive_entry_gid(e);
    const char *name = NULL;
    const void *value = NULL;
    size_t size = 0;
    size_t total = 0;

    if (uid < 0 || uid >= FILE_OWNERS || gid < 0 || gid >= FILE_OWNERS)
        return refuse(path, "an owner beyond 65535", err);
    if (archive_entry_xattr_reset(e) > ATTRIBUTES_MAX)
        return refuse(path, "too many extended attributes", err);
    while (archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK)
        total += size + (name ? strlen(name) : 0);
    if (total > ATTRIBUTES_BYTES)
        return refuse(path, "too large extended attributes", err);
    *out = (struct attributes){
        .mode = archive_entry_perm(e) & 07777,
        .uid = (uid_t)uid,
        .gid = (gid_t)gid,
        .mtime = { .tv_sec = archive_entry_mtime(e),
                   .tv_nsec = archive_entry_mtime_nsec(e) },
        .entry = e,
    };
    return 0;
}

int attributes_of(int dir_fd, const char *name, const struct stat *st,
                  struct attributes *out)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return -1;
    *out = (struct attributes){ .mode = st->st_mode & 07777,
                                .uid = st->st_uid,
                                .gid = st->st_gid,
                                .mtime = st->st_mtim,
                                .like_fd = fd };
    return 0;
}

static int set_from_entry(int fd, struct archive_entry *e)
{
    const char *name = NULL;
    const void *value = NULL;
    size_t size = 0;

    (void)archive_entry_xattr_reset(e);
    while (archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK)
        if (name && attributes_keep(name) && fsetxattr(fd, name, value, size, 0) < 0 &&
            !(errno == EPERM && geteuid() != 0)) /* capabilities are root's to give */
            return -1;
    return 0;
}

static int set_from_file(int fd, int from)
{
    char names[ATTRIBUTES_BYTES];
    char value[ATTRIBUTES_BYTES];
    ssize_t len = flistxattr(from, names, sizeof(names));

    for (const char *n = names; len > 0 && n < names + len; n += strlen(n) + 1) {
        ssize_t size =
            attributes_keep(n) ? fgetxattr(from, n, value, sizeof(value)) : -1;

        if (size >= 0 && fsetxattr(fd, n, value, (size_t)size, 0) < 0 &&
            !(errno == EPERM && geteuid() != 0))
            return -1;
    }
    return 0;
}

int attributes_set(int fd, const struct attributes *a, bool owners)
{
    struct stat st;
    int rc = fstat(fd, &st);

    /* A change of owner clears setuid bits and capabilities: it comes first. */
    if (rc == 0 && owners)
        rc = fchown(fd, a->uid, a->gid);
    if (rc == 0)
        rc = fchmod(fd, owners
                            ? a->mode & 07777
                            : (a->mode & 01777) | (S_ISDIR(st.st_mode) ? 0700 : 0600));
    if (rc == 0 && a->entry)
        rc = set_from_entry(fd, a->entry);
    if (rc == 0 && a->like_fd > 0)
        rc = set_from_file(fd, a->like_fd);
    if (a->like_fd > 0)
        (void)close(a->like_fd);
    return rc;
}

int attributes_set_time(int fd, const char *name, struct timespec mtime)
{
    const struct timespec times[2] = { mtime, mtime };

    return name ? utimensat(fd, name, times, AT_SYMLINK_NOFOLLOW) : futimens(fd, times);
}
