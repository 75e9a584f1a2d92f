/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/sys.h"
#include "driver/native/idmap.h"
#include "driver/native/root.h"

#define PRIVATE (UINT64_C(1) << 18) /* MS_PRIVATE */

static uint64_t attributes(const struct plan_mount *m)
{
    uint64_t set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

    return m->writable ? set : set | MOUNT_ATTR_RDONLY;
}

/* An overlay marks replaced directories by attributes, which a tmpfs has for
 * ordinary users since 6.6. A memory file is one of a tmpfs. */
static bool tmpfs_has_attributes(void)
{
    auto_fd int fd = memfd_create("probe", MFD_CLOEXEC);

    return fd >= 0 && fsetxattr(fd, "user.vial", "y", 1, 0) == 0;
}

static int check_overlays(const struct plan *plan, struct vial_error *err)
{
    bool any = false;

    for (size_t i = 0; i < plan->mount_count; i++)
        any = any || plan->mounts[i].overlay;
    if (!any || tmpfs_has_attributes())
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "this kernel cannot put an overlay over the workspace");
    return fail_remedy(err, "it needs Linux 6.6 or newer; or use "
                            "'--workspace-mode ro' or 'rw'");
}

int mounts_check(const struct plan *plan, struct vial_error *err)
{
    if (check_overlays(plan, err) < 0)
        return -1;
    if (plan->mount_count <= MOUNTS_MAX)
        return 0;
    return fail(err, VIAL_E_UNSUPPORTED, "driver 'native' takes %d mounts at most",
                MOUNTS_MAX);
}

/* What is to be mounted: an object of the host's. */
struct shown {
    const char *path; /* borrowed */
    uint64_t dev, ino;
};

static struct shown shown_by(const struct plan_mount *m, const struct volume *v)
{
    return m->volume ? (struct shown){ v->path, v->dev, v->ino }
                     : (struct shown){ m->source, m->dev, m->ino };
}

static int open_source(const struct shown *m, struct vial_error *err)
{
    struct stat st;
    auto_fd int fd = sys_openat2(AT_FDCWD, m->path, O_PATH | O_CLOEXEC, 0,
                                 RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

    if (fd < 0) {
        (void)fail_sys_rc(err, fd, "open mount source '%s'", m->path);
        return fail_as(err, VIAL_E_MOUNT);
    }
    if (fstat(fd, &st) < 0)
        return fail_sys(err, "look at mount source '%s'", m->path);
    if (st.st_dev != m->dev || st.st_ino != m->ino)
        return fail(err, VIAL_E_MOUNT,
                    "mount source '%s' was replaced by something else", m->path);
    return fd_take(&fd);
}

static int set_attributes(int fd, const struct plan_mount *m, int idmap_fd)
{
    struct mount_attr attr = { .attr_set = attributes(m), .propagation = PRIVATE };

    if (idmap_fd >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (unsigned)idmap_fd;
    }
    return syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
                   sizeof(attr)) < 0
               ? -errno
               : 0;
}

static int copy_tree(const struct shown *m, struct vial_error *err)
{
    auto_fd int source = open_source(m, err);
    int fd = -1;

    if (source < 0)
        return -1;
    fd = (int)syscall(SYS_open_tree, source, "",
                      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
                          AT_RECURSIVE);
    if (fd >= 0)
        return fd;
    (void)fail_sys(err, "copy mount '%s'", m->path);
    return fail_as(err, VIAL_E_MOUNT);
}

static int prepare(const struct plan_mount *m, const struct volume *v, int idmap_fd,
                   int *out, struct vial_error *err)
{
    const struct shown shown = shown_by(m, v);
    auto_fd int fd = m->volume && v->loop_fd >= 0 ? volume_disk_mount(v->device, err)
                                                  : copy_tree(&shown, err);
    int rc = 0;

    if (fd < 0)
        return -1;
    rc = set_attributes(fd, m, idmap_fd);
    if (rc < 0 && !m->writable &&
        !m->overlay) /* then only what anyone may read is readable */
        rc = set_attributes(fd, m, -1);
    if (rc < 0) {
        (void)fail_sys_rc(err, rc, "map the owner of mount '%s'", m->source);
        (void)fail_as(err, VIAL_E_MOUNT);
        return fail_remedy(err, "its file system has no id-mapped mounts: mount it "
                                "read-only, or run vial as the user who owns it");
    }
    *out = fd_take(&fd);
    return 0;
}

int mounts_prepare(const struct plan *plan, const struct mount_sides *sides,
                   struct mount_fds *out, struct vial_error *err)
{
    auto_fd int callers_fd = -1;
    auto_fd int vessels_fd = -1;

    if (plan->mount_count == 0)
        return 0;
    callers_fd = idmap_open(getuid(), getgid(), sides->program_id, err);
    vessels_fd = callers_fd < 0 ? -1 : idmap_users(sides->pid, err);
    if (vessels_fd < 0)
        return -1;
    for (size_t i = 0; i < plan->mount_count && i < MOUNTS_MAX; i++) {
        const struct plan_mount *m = &plan->mounts[i];

        if (prepare(m, &sides->volumes->items[i], m->volume ? vessels_fd : callers_fd,
                    &out->fd[i], err) < 0)
            return -1;
        out->count = i + 1;
    }
    return 0;
}

void mounts_done(struct mount_fds *m)
{
    for (size_t i = 0; i < m->count; i++)
        (void)close(m->fd[i]);
    m->count = 0;
}

void mounts_add_steps(struct script *s, const struct plan *plan,
                      const struct held_volumes *volumes)
{
    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct plan_mount *m = &plan->mounts[i];
        const struct shown shown = shown_by(m, &volumes->items[i]);
        unsigned slot = ROOT_MOUNT_SLOT + (unsigned)i;

        script_add(s, (struct step){ OP_OPEN, .open = { shown.path, shown.dev,
                                                        shown.ino, slot } });
        script_add(
            s, (struct step){ OP_TREE, .tree = { shown.path, attributes(m), slot } });
    }
}
