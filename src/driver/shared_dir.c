/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/shared_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/sys.h"
#include "driver/docker/container.h"
#include "plan/mount_hazards.h"

#define DEFAULT_ACL "system.posix_acl_default"
#define ENTRIES_MAX ((size_t)20000) /* that are looked at, as mounts are judged */

/* As the kernel takes it: linux/posix_acl_xattr.h, in little-endian order. */
struct acl_entry {
    uint16_t tag, perm;
    uint32_t id;
};

enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, MASK = 16, OTHER = 32, NOBODY = -1 };

/* Started by root, a native vessel's programs are the host's root without a right of
 * his, and a container's are an ordinary user: either may write what the other has
 * made. Where the file system knows no such lists, each keeps to its own files. */
static void open_to_both(const char *path)
{
    static const struct {
        uint32_t version;
        struct acl_entry entries[6];
    } acl = { 2,
              { { USER_OBJ, 7, (uint32_t)NOBODY },
                { USER, 7, 0 },
                { USER, 7, CONTAINER_USER },
                { GROUP_OBJ, 5, (uint32_t)NOBODY },
                { MASK, 7, (uint32_t)NOBODY },
                { OTHER, 5, (uint32_t)NOBODY } } };

    if (lgetxattr(path, DEFAULT_ACL, NULL, 0) < 0 && errno == ENODATA)
        (void)!lsetxattr(path, DEFAULT_ACL, &acl, sizeof acl, 0);
}

/* The socket at PATH below the directory FD, unless the way there leads out by now. */
static void remove_socket(int fd, char *path)
{
    char *slash = strrchr(path, '/'); /* "./a/b" */
    auto_fd int parent_fd = -1;
    struct stat st;

    *slash = '\0';
    parent_fd = sys_openat2(fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                            RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
    if (parent_fd >= 0 &&
        fstatat(parent_fd, slash + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISSOCK(st.st_mode))
        (void)unlinkat(parent_fd, slash + 1, 0);
}

/* Removes sockets that a program of an earlier run has bound there. A mount must hold
 * none: each would have every later run refused. A stranger's, which we cannot remove,
 * still does. */
static void remove_sockets(const char *path)
{
    auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    auto_strv struct strv found = { 0 };
    size_t budget = ENTRIES_MAX;

    if (fd < 0 || sockets_find(fd, &budget, ENTRIES_MAX, &found) < 0)
        return;
    for (size_t i = 0; i < found.count; i++)
        remove_socket(fd, found.items[i]);
}

static bool is_trusted(const struct stat *st)
{
    if (!S_ISDIR(st->st_mode))
        return false;
    return st->st_uid == geteuid() ||
           (st->st_uid == 0 && (st->st_mode & 01777) == 01777);
}

static int make_one(const char *path, struct vial_error *err)
{
    bool root = geteuid() == 0;
    struct stat st;

    if (mkdir(path, 0700) == 0 && (!root || chmod(path, 01777) == 0)) {
        if (root)
            open_to_both(path);
        return 0;
    }
    if (errno != EEXIST || lstat(path, &st) < 0) {
        (void)fail_sys(err, "make directory '%s'", path);
        return fail_as(err, VIAL_E_MOUNT);
    }
    if (!is_trusted(&st)) {
        (void)fail(err, VIAL_E_MOUNT, "'%s' is not a directory of yours", path);
        return fail_remedy(err, "remove it; it will be made anew");
    }
    if (root)
        open_to_both(path);
    remove_sockets(path);
    return 0;
}

int shared_dirs_make(const struct strv *paths, struct vial_error *err)
{
    for (size_t i = 0; i < paths->count; i++)
        if (make_one(paths->items[i], err) < 0)
            return -1;
    return 0;
}
