/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/sys.h"

/* Far above what distributions hand out (subuid, systemd-nspawn, homed). */
#define FIRST_ID  0x70000000u
#define PID_LIMIT (1u << 22)
#define LAST_ID   (FIRST_ID + 2u * PID_LIMIT)

/* A vessel that has all users of an image gets a range of them. */
#define FIRST_RANGE 0x71000000u
#define RANGES      3840u
#define END_RANGES  (FIRST_RANGE + RANGES * IDMAP_RANGE)
#define TRIES       256u
#define RUN_DIR     "/run/vial"
#define RANGE_FILE  RUN_DIR "/ids"

/* Whether our user namespace has all ids: 1, 0, or -errno. */
static int is_whole(void)
{
    char text[128];
    char *end = NULL;
    unsigned long long inside = 0;
    unsigned long long count = 0;
    ssize_t rc = 0;

    rc = io_read_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text));
    if (rc < 0)
        return (int)rc;
    inside = strtoull(text, &end, 10);
    (void)strtoull(end, &end, 10);
    count = strtoull(end, &end, 10);
    return inside == 0 && count >= END_RANGES;
}

/* Whether we have what mapping any id takes, which root of a container may have
 * dropped: 1, 0, or -errno. */
static int may_map(void)
{
    const uint32_t needed = 1u << CAP_SETUID | 1u << CAP_SETGID;
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct now[2] = { { 0 } };

    if (syscall(SYS_capget, &header, now) < 0)
        return -errno;
    return (now[0].effective & needed) == needed;
}

int idmap_privileged(void)
{
    int whole = geteuid() == 0 ? is_whole() : 0;

    return whole > 0 ? may_map() : whole;
}

uid_t idmap_guest_id(pid_t pid)
{
    return FIRST_ID + 2u * ((uid_t)pid & (PID_LIMIT - 1));
}

static int open_ranges(struct vial_error *err)
{
    int fd = -1;

    if (mkdir(RUN_DIR, 0755) < 0 && errno != EEXIST)
        return fail_sys(err, "make '%s'", RUN_DIR);
    fd = open(RANGE_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    return fd < 0 ? fail_sys(err, "open '%s'", RANGE_FILE) : fd;
}

/* A byte of the file stands for a range, and a lock on it goes with the last copy of
 * the descriptor, however its owner ends. */
int idmap_take_range(uid_t *first, struct vial_error *err)
{
    auto_fd int fd = open_ranges(err);
    uint32_t at = 0;

    if (fd < 0)
        return -1;
    if (sys_random(&at, sizeof(at)) < 0)
        at = (uint32_t)getpid();
    for (unsigned i = 0; i < TRIES; i++) {
        unsigned range = (at + i) % RANGES;
        struct flock lock = {
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = range, .l_len = 1
        };

        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            *first = FIRST_RANGE + range * IDMAP_RANGE;
            return fd_take(&fd);
        }
        if (errno != EAGAIN && errno != EACCES)
            return fail_sys(err, "lock '%s'", RANGE_FILE);
    }
    (void)fail(err, VIAL_E_BUSY, "no range of user ids is free for the vessel");
    return fail_remedy(err, "close some vessels that have an image");
}

int idmap_users(pid_t pid, struct vial_error *err)
{
    char path[64];
    int fd = -1;

    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? fail_sys(err, "open the user namespace of process %d", (int)pid)
                  : fd;
}

static int write_proc(pid_t pid, const char *name, const char *text,
                      struct vial_error *err)
{
    char path[64];
    int rc = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    rc = io_write_at(AT_FDCWD, path, text);
    return rc < 0 ? fail_sys_rc(err, rc, "write '%s' of the vessel", name) : 0;
}

static int write_both(pid_t pid, const char *uids, const char *gids,
                      struct vial_error *err)
{
    if (write_proc(pid, "uid_map", uids, err) < 0)
        return -1;
    return write_proc(pid, "gid_map", gids, err);
}

int idmap_write_range(pid_t pid, uid_t first, struct vial_error *err)
{
    char map[64];

    (void)snprintf(map, sizeof(map), "0 %u %u", first, IDMAP_RANGE);
    return write_both(pid, map, map, err);
}

int idmap_write(pid_t pid, bool privileged, struct vial_error *err)
{
    char uids[96];
    char gids[96];
    uid_t id = idmap_guest_id(pid);

    if (privileged) {
        (void)snprintf(uids, sizeof(uids), "0 %u 1\n%u %u 1", id, IDMAP_PROGRAM,
                       id + 1);
        return write_both(pid, uids, uids, err);
    }
    (void)snprintf(uids, sizeof(uids), "%u %u 1", IDMAP_PROGRAM, geteuid());
    (void)snprintf(gids, sizeof(gids), "%u %u 1", IDMAP_PROGRAM, getegid());
    if (write_proc(pid, "setgroups", "deny", err) < 0)
        return -1;
    return write_both(pid, uids, gids, err);
}

/* The namespace lives on in the descriptor; its only process is not needed. */
static int open_namespace(pid_t pid, uid_t uid, gid_t gid, uid_t program_id,
                          struct vial_error *err)
{
    char uids[64];
    char gids[64];

    (void)snprintf(uids, sizeof(uids), "%u %u 1", uid, program_id);
    (void)snprintf(gids, sizeof(gids), "%u %u 1", gid, program_id);
    if (write_both(pid, uids, gids, err) < 0)
        return -1;
    return idmap_users(pid, err);
}

/* Holds its namespace open until it is killed, by us or by our death. */
static _Noreturn void hold(pid_t parent)
{
    if (syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
        syscall(SYS_getppid) == parent)
        (void)syscall(SYS_ppoll, 0, 0, 0, 0, 0);
    for (;;)
        (void)syscall(SYS_exit_group, 1);
}

int idmap_open(uid_t uid, gid_t gid, uid_t program_id, struct vial_error *err)
{
    pid_t parent = getpid();
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER, 0, 0, 0, 0);
    int fd = -1;

    if (pid == 0)
        hold(parent);
    if (pid < 0)
        return fail_sys(err, "make a user namespace for mounts");
    fd = open_namespace(pid, uid, gid, program_id, err);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    return fd;
}
