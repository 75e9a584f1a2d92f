/* SPDX-License-Identifier: Apache-2.0 */
#include "volumes/volume_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"

#define TRIES       16 /* others may take the free device first */
#define GOING_MS    20 /* a device goes a moment after its last user */
#define GOING_TRIES 100
#define DISK_FD     3 /* of mkfs */
#define ABOVE       10

static int no_sizes(struct vial_error *err, const char *why)
{
    (void)fail(err, VIAL_E_UNSUPPORTED, "a volume cannot have a size here: %s", why);
    return fail_remedy(err, "leave the size out; then the file system of the store "
                            "bounds it, which can be one of its own");
}

/* In the child: system calls alone. Not by a path: what stands there is nobody else's,
 * but a descriptor need not be looked for. */
static void become_mkfs(int disk_fd, const char *program)
{
    static const char *const args[] = {
        "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard", "/proc/self/fd/3", NULL
    };
    static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd >= 0 && dup2(null_fd, 0) == 0 && dup2(null_fd, 1) == 1 &&
        dup2(null_fd, 2) == 2 && dup2(disk_fd, DISK_FD) == DISK_FD)
        (void)execve(program, (char *const *)(uintptr_t)args,
                     (char *const *)(uintptr_t)env);
    _exit(127);
}

static int run_mkfs(int disk_fd, struct vial_error *err)
{
    static const char program[] = "/sbin/mkfs.ext4";
    auto_fd int high = fcntl(disk_fd, F_DUPFD_CLOEXEC, ABOVE);
    int status = 0;
    pid_t pid;

    if (access(program, X_OK) < 0)
        return no_sizes(err, "there is no '/sbin/mkfs.ext4' (package e2fsprogs)");
    pid = high < 0 ? -1 : fork();
    if (pid == 0)
        become_mkfs(high, program);
    if (pid < 0)
        return fail_sys(err, "start '%s'", program);
    while (waitpid(pid, &status, __WALL) < 0)
        if (errno != EINTR)
            return fail_sys(err, "wait for '%s'", program);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return fail(err, VIAL_E_FILE, "'%s' made no file system for a volume", program);
}

bool volume_disk_fits(const struct statvfs *room, uint64_t size)
{
    return size / room->f_frsize + room->f_blocks / 20 < (uint64_t)room->f_bavail;
}

/* Asked first: the file system would take all that is left before it said no, from
 * everybody. */
static bool has_room(int dir_fd, uint64_t size)
{
    struct statvfs room;

    errno = ENOSPC;
    return fstatvfs(dir_fd, &room) == 0 && volume_disk_fits(&room, size);
}

/* All of it now: were it taken while programs write, a full disk would look to them
 * like a broken one. */
static int make_file(int dir_fd, uint64_t size, struct vial_error *err)
{
    auto_fd int fd = -1;

    if (has_room(dir_fd, size))
        fd = openat(dir_fd, VOLUME_DISK, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && fallocate(fd, 0, 0, (off_t)size) == 0)
        return fd_take(&fd);
    if (fd >= 0 && errno == EOPNOTSUPP)
        return no_sizes(err, "the store's file system reserves no room");
    (void)fail_sys(err, "reserve %llu bytes for a volume", (unsigned long long)size);
    return fail_remedy(err, "the store's disk must have so much left: make room, or "
                            "choose a smaller size");
}

/* As a volume without a size has it: whoever programs are inside may write at its top.
 */
static int make_top(int mount_fd, unsigned uid)
{
    auto_fd int fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || unlinkat(fd, "lost+found", AT_REMOVEDIR) < 0 ||
        fchown(fd, uid, uid) < 0 || fchmod(fd, 0777) < 0)
        return -1;
    return syncfs(fd);
}

int volume_disk_make(int dir_fd, uint64_t size, unsigned uid, struct vial_error *err)
{
    auto_fd int disk_fd = -1;
    auto_fd int loop_fd = -1;
    auto_fd int mount_fd = -1;
    char device[VOLUME_DEVICE];

    if (geteuid() != 0)
        return no_sizes(err, "only root's volumes have one");
    disk_fd = make_file(dir_fd, size, err);
    if (disk_fd < 0 || run_mkfs(disk_fd, err) < 0)
        return -1;
    loop_fd = volume_disk_attach(dir_fd, device, err);
    mount_fd = loop_fd < 0 ? -1 : volume_disk_mount(device, err);
    if (mount_fd < 0)
        return -1;
    return make_top(mount_fd, uid) < 0 ? fail_sys(err, "prepare a volume's top") : 0;
}

/* Devices are those of the whole machine, so all of them are looked at, and one that
 * cannot be is a reason to stop: two devices on one file would spoil it. */
static int open_device(const char *name, int flags)
{
    char path[VOLUME_DEVICE + 8];

    (void)snprintf(path, sizeof(path), "/dev/%.20s", name);
    return open(path, flags | O_CLOEXEC);
}

static bool is_bound(const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/sys/block/%.20s/loop", name);
    return access(path, F_OK) == 0;
}

static bool is_on(int fd, const struct stat *disk)
{
    struct loop_info64 info;

    return ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == disk->st_ino &&
           info.lo_device == disk->st_dev;
}

/* 1: FD is it; 0: it is another's; -1: nobody can say. Having it open keeps it from
 * going. */
static int try_device(const char *name, const struct stat *disk, int *fd)
{
    auto_fd int candidate = -1;

    if (!str_starts(name, "loop") || strlen(name) > 20 || !is_bound(name))
        return 0;
    candidate = open_device(name, O_RDWR);
    if (candidate < 0 && (errno == EROFS || errno == EACCES))
        candidate = open_device(name, O_RDONLY); /* read-only, and not ours then */
    if (candidate < 0)
        return is_bound(name) ? -1 : 0; /* it has just gone */
    if (!is_on(candidate, disk))
        return 0;
    *fd = fd_take(&candidate);
    return 1;
}

/* As try_device, of all devices. */
static int find_device(const struct stat *disk, char name[VOLUME_DEVICE], int *fd)
{
    DIR *dir = opendir("/sys/block");
    const struct dirent *entry = NULL;
    int rc = dir ? 0 : -1;

    while (dir && rc == 0) {
        errno = 0;
        entry = readdir(dir); /* NOLINT(concurrency-mt-unsafe): nobody else has it */
        if (!entry)
            break;
        rc = try_device(entry->d_name, disk, fd);
    }
    if (rc == 1)
        (void)snprintf(name, VOLUME_DEVICE, "%.20s", entry->d_name);
    else if (!entry && errno)
        rc = -1;
    if (dir)
        (void)closedir(dir);
    return rc;
}

/* A fresh one, which goes when it is closed everywhere. */
static int take_device(int disk_fd, char name[VOLUME_DEVICE])
{
    auto_fd int control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    const struct loop_config config = { .fd = (uint32_t)disk_fd,
                                        .info.lo_flags = LO_FLAGS_AUTOCLEAR };

    for (int i = 0; control_fd >= 0 && i < TRIES; i++) {
        int number = ioctl(control_fd, LOOP_CTL_GET_FREE);
        auto_fd int fd = -1;

        if (number < 0)
            return -1;
        (void)snprintf(name, VOLUME_DEVICE, "loop%d", number);
        fd = open_device(name, O_RDWR);
        if (fd < 0)
            return -1;
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
            return fd_take(&fd);
        if (errno != EBUSY)
            return -1;
    }
    return -1;
}

int volume_disk_attach(int dir_fd, char device[VOLUME_DEVICE], struct vial_error *err)
{
    auto_fd int disk_fd = openat(dir_fd, VOLUME_DISK, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    int fd = -1;
    int found;

    if (disk_fd < 0 || fstat(disk_fd, &st) < 0)
        return fail_sys(err, "open the disk of a volume");
    found = find_device(&st, device, &fd);
    if (found == 0)
        fd = take_device(disk_fd, device);
    if (fd >= 0)
        return fd;
    (void)fail_sys(err, "get a loop device for a volume with a size");
    (void)fail_as(err, VIAL_E_UNSUPPORTED);
    return fail_remedy(err, "this host, or the container that vial runs in, must have "
                            "loop devices: 'modprobe loop', and /dev/loop-control");
}

/* 1: there is one, for longer than one takes to go; 0: none; -1: nobody can say. */
static int stays(const struct stat *disk)
{
    char device[VOLUME_DEVICE];
    int found = 0;

    for (int i = 0; i < GOING_TRIES; i++) {
        auto_fd int fd = -1;

        found = find_device(disk, device, &fd);
        if (found == 0)
            return 0;
        auto_fd_(&fd);
        (void)poll(NULL, 0, GOING_MS);
    }
    return found;
}

int volume_disk_check_unused(int dir_fd, const char *name, struct vial_error *err)
{
    struct stat st;
    int found;

    if (fstatat(dir_fd, VOLUME_DISK, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    found = stays(&st);
    if (found == 0)
        return 0;
    if (found < 0) {
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "nobody here can see whether the disk of volume '%s' is in use",
                   name);
        return fail_remedy(err, "remove it where all loop devices of the machine can "
                                "be opened: as root, outside of containers");
    }
    (void)fail(err, VIAL_E_BUSY, "somebody still has files of volume '%s' open", name);
    return fail_remedy(err, "end the vessels that had it, and those that they gave "
                            "open files to");
}

int volume_disk_mount(const char *device, struct vial_error *err)
{
    auto_fd int fs = (int)syscall(SYS_fsopen, "ext4", FSOPEN_CLOEXEC);
    char path[VOLUME_DEVICE + 8];
    int fd = -1;

    (void)snprintf(path, sizeof(path), "/dev/%.20s", device);
    if (fs >= 0 &&
        syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "source", path, 0) == 0 &&
        syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd >= 0)
        return fd;
    (void)fail_sys(err, "mount the file system of a volume");
    return fail_as(err, VIAL_E_MOUNT);
}
