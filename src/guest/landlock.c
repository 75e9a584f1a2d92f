/* SPDX-License-Identifier: Apache-2.0 */

/* Landlock through its system calls. Constants are spelled out, since the
 * headers of a build host may be older than the kernel that runs. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/guest.h"

#ifndef SYS_landlock_create_ruleset
    #define SYS_landlock_create_ruleset 444
    #define SYS_landlock_add_rule       445
    #define SYS_landlock_restrict_self  446
#endif

enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_DIR = 1 << 4,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_DIR = 1 << 7,
    FS_MAKE_REG = 1 << 8,
    FS_MAKE_SOCK = 1 << 9,
    FS_MAKE_FIFO = 1 << 10,
    FS_MAKE_SYM = 1 << 12,
    FS_ABI1 = (1 << 13) - 1,
    FS_REFER = 1 << 13,     /* ABI 2 */
    FS_TRUNCATE = 1 << 14,  /* ABI 3 */
    FS_IOCTL_DEV = 1 << 15, /* ABI 5 */

    /* Making device files and ioctls on devices are never granted. */
    FS_WRITING = FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR |
                 FS_MAKE_REG | FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER |
                 FS_TRUNCATE,
    FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE,
};

#define NET_TCP (1u << 0 | 1u << 1) /* bind and connect; ABI 4 */
/* ABI 6. Each program has a domain of its own. */
#define SCOPE_ABSTRACT (1u << 0)
#define SCOPE_SIGNAL   (1u << 1)

struct ruleset_attr {
    uint64_t fs, net, scoped;
};

struct path_attr {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

static uint64_t fs_of_abi(long abi)
{
    uint64_t fs = FS_ABI1;

    if (abi >= 2)
        fs |= FS_REFER;
    if (abi >= 3)
        fs |= FS_TRUNCATE;
    if (abi >= 5)
        fs |= FS_IOCTL_DEV;
    return fs;
}

static uint64_t fs_of_access(uint32_t access)
{
    uint64_t fs = 0;

    if (access & JAIL_READ)
        fs |= FS_READ_FILE | FS_READ_DIR;
    if (access & JAIL_EXEC)
        fs |= FS_EXECUTE;
    if (access & JAIL_WRITE)
        fs |= FS_WRITING;
    if (access & JAIL_DEVICE)
        fs |= FS_IOCTL_DEV;
    return fs;
}

static int add_path(int ruleset, const struct jail_path *rule, uint64_t handled)
{
    struct path_attr attr = { .allowed = fs_of_access(rule->access) & handled };
    struct stat st;
    int fd =
        openat(AT_FDCWD, rule->path, O_PATH | O_CLOEXEC); /* musl's open asks twice */
    int rc = 0;

    if (fd < 0) /* without a rule nothing is allowed there */
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
    if (fstat(fd, &st) < 0)
        rc = -errno;
    else if (!S_ISDIR(st.st_mode))
        attr.allowed &= FS_OF_FILES;
    attr.parent_fd = fd;
    if (rc == 0 && attr.allowed &&
        syscall(SYS_landlock_add_rule, ruleset, 1 /* path beneath */, &attr, 0) < 0)
        rc = -errno;
    (void)close(fd);
    return rc;
}

long landlock_abi(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* which ABI */);
}

int landlock_build(const struct jail *jail)
{
    long abi = landlock_abi();
    struct ruleset_attr attr = { .fs = fs_of_abi(abi) };
    int ruleset;

    if (abi < 1)
        return abi < 0 ? -errno : -ENOSYS;
    if (abi >= 4 && (jail->flags & JAIL_LANDLOCK_NET))
        attr.net = NET_TCP;
    if (abi >= 6)
        attr.scoped = SCOPE_ABSTRACT;
    /* In a pid namespace there is nobody else to signal, but what an earlier
     * program of the same session left running. */
    if (abi >= 6 && !(jail->flags & JAIL_PID1))
        attr.scoped |= SCOPE_SIGNAL;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (ruleset < 0)
        return -errno;
    for (size_t i = 0; i < jail->path_count; i++) {
        int rc = add_path(ruleset, &jail->paths[i], attr.fs);

        if (rc < 0) {
            (void)close(ruleset);
            return rc;
        }
    }
    return ruleset;
}

int landlock_apply(int fd)
{
    return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}
