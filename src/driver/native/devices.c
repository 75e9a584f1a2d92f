/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"

const char *const devices_shown[DEVICES] = { "null", "zero", "full", "random",
                                             "urandom" };

/* An overlay without a layer to write to has two others at least. What the second one
 * shows is seen by nobody: the vessel gets the nodes alone. */
static int make_overlay(void)
{
    auto_fd int fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);

    if (fs < 0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "lowerdir", "/dev:/usr", 0) <
            0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
                        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

bool devices_can_be_own(void)
{
    struct stat dev, node;
    auto_fd int fd = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &dev) < 0)
        return false;
    for (size_t i = 0; i < DEVICES; i++) {
        if (fstatat(fd, devices_shown[i], &node, AT_SYMLINK_NOFOLLOW) < 0 ||
            node.st_dev != dev.st_dev)
            return false;
    }
    return true;
}

static int check_nodes(int fd, struct vial_error *err)
{
    for (size_t i = 0; i < DEVICES; i++) {
        struct stat st;

        if (fstatat(fd, devices_shown[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            return fail_sys(err, "look at '/dev/%s'", devices_shown[i]);
        if (!S_ISCHR(st.st_mode))
            return fail(err, VIAL_E_OPEN, "'/dev/%s' of this host is no device",
                        devices_shown[i]);
    }
    return 0;
}

int devices_open(struct vial_error *err)
{
    auto_fd int fd = make_overlay();

    if (fd < 0) {
        (void)fail_sys(err, "give the vessel device nodes of its own");
        return fail_as(err, VIAL_E_OPEN);
    }
    return check_nodes(fd, err) < 0 ? -1 : fd_take(&fd);
}
