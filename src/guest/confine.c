/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/guest.h"

#define CAP(name) (UINT64_C(1) << CAP_##name)

/* What root of a vessel can do, if a vessel has one: to its files and processes, and to
 * who they belong to. None that mounts, traces, loads, makes devices, or reaches past
 * the vessel's loopback. In its user namespace, each of them ends where the vessel
 * does. */
#define ROOT_CAPS                                                                      \
    (CAP(CHOWN) | CAP(DAC_OVERRIDE) | CAP(DAC_READ_SEARCH) | CAP(FOWNER) |             \
     CAP(FSETID) | CAP(KILL) | CAP(SETGID) | CAP(SETUID) | CAP(SETPCAP) |              \
     CAP(SETFCAP) | CAP(NET_BIND_SERVICE) | CAP(AUDIT_WRITE))

#define CAPS_END 64 /* the kernel knows fewer, and says where they end */

static int set_rlimit(int resource, rlim_t value)
{
    struct rlimit wanted = { value, value }, before;
    bool is_set = prlimit(0, resource, &wanted, &before) == 0;

    if (is_set && value <= before.rlim_max)
        return 0;
    if (!is_set && prlimit(0, resource, NULL, &before) < 0)
        return -errno;
    if (value > before.rlim_max) /* which some may not raise, and none shall */
        wanted = (struct rlimit){ before.rlim_max, before.rlim_max };
    return prlimit(0, resource, &wanted, NULL) < 0 ? -errno : 0;
}

/* Where others of the same user would be counted, their number would decide. */
static bool would_count_others(const struct guest *g, uint32_t resource)
{
    return resource == RLIMIT_NPROC && (g->jail.flags & JAIL_OWN_USERS) &&
           g->users_fd < 0;
}

int confine_rlimits(const struct guest *g)
{
    const struct jail *jail = &g->jail;

    for (size_t i = 0; i < jail->rlimit_count; i++) {
        const struct jail_rlimit *l = &jail->rlimits[i];
        int rc = 0;

        if (!would_count_others(g, l->resource))
            rc = set_rlimit((int)l->resource, l->value);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static uint64_t kept_caps(const struct jail *jail)
{
    return jail->flags & JAIL_ROOT_CAPS ? ROOT_CAPS : 0;
}

/* 0: it is not in the set any more; 1: there is no such capability; or -errno. */
static int drop_bound(unsigned long cap)
{
    int error = 0, held = 0;

    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
        return 0;
    error = errno;
    held = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
    if (held < 0)
        return 1;
    return held ? -error : 0;
}

static int get_caps(uint64_t *permitted, uint64_t *any)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { 0 };

    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    *permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
    *any = *permitted | data[0].effective | data[0].inheritable |
           (uint64_t)(data[1].effective | data[1].inheritable) << 32;
    return 0;
}

/* The root of a container may hold capabilities, and not the one to empty the set with.
 * Then the set stays: where no new privileges can be had, an exec gives nothing of it
 * to who has none (confine_check looks). */
static bool can_leave_bounds(const struct jail *jail)
{
    uint64_t permitted = 0, any = 0;

    return (jail->flags & JAIL_NO_NEW_PRIVS) && get_caps(&permitted, &any) == 0 &&
           !(permitted & UINT64_C(1) << CAP_SETPCAP);
}

/* Asking costs far less than dropping what is not there; but who has the first, has
 * not lost any, most likely. */
int confine_bounding(const struct jail *jail)
{
    uint64_t kept = kept_caps(jail);
    bool ask = prctl(PR_CAPBSET_READ, 0, 0, 0, 0) != 1;

    for (unsigned long cap = 0; cap < CAPS_END; cap++) {
        int rc = kept >> cap & 1u                                   ? 0
                 : ask && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 0 ? 0
                                                                    : drop_bound(cap);

        if (rc > 0) /* past the last one */
            return cap ? 0 : -EINVAL;
        if (rc < 0)
            return rc == -EPERM && can_leave_bounds(jail) ? 0 : rc;
    }
    return 0;
}

bool confine_denies_groups(void)
{
    char text[4];
    int fd = openat(AT_FDCWD, "/proc/self/setgroups", O_RDONLY | O_CLOEXEC);
    bool denied = fd >= 0 && read(fd, text, sizeof text) == (ssize_t)sizeof text &&
                  memcmp(text, "deny", sizeof text) == 0;

    if (fd >= 0)
        (void)close(fd);
    return denied;
}

static int drop_groups(const struct guest *g)
{
    if (getgroups(0, NULL) == 0 || setgroups(0, NULL) == 0)
        return 0;
    /* An unprivileged user namespace forbids it; the kernel leaves no way. */
    return errno == EPERM && g->setgroups_denied ? 0 : -errno;
}

int confine_ids(const struct guest *g, bool root)
{
    uid_t uid = root ? 0 : g->jail.uid, u[3];
    gid_t gid = root ? 0 : g->jail.gid, i[3];
    int rc = root && !kept_caps(&g->jail) ? -EPERM : drop_groups(g);

    if (rc < 0)
        return rc;
    /* Loading filters still takes a capability then (confine_caps). */
    if (!(g->jail.flags & JAIL_NO_NEW_PRIVS) && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return -errno;
    if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0 ||
        getresgid(&i[0], &i[1], &i[2]) < 0 || getresuid(&u[0], &u[1], &u[2]) < 0)
        return -errno;
    if (i[0] != gid || i[1] != gid || i[2] != gid || u[0] != uid || u[1] != uid ||
        u[2] != uid)
        return -EPERM;
    return 0;
}

static int set_caps(uint64_t keep)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    for (unsigned i = 0; i < 2; i++) {
        uint32_t part = (uint32_t)(keep >> (32 * i));

        data[i] =
            (struct __user_cap_data_struct){ .effective = part, .permitted = part };
    }
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int confine_keep_caps(uint64_t keep)
{
    uint64_t permitted = 0, any = 0;
    int rc = get_caps(&permitted, &any);

    return rc < 0 ? rc : set_caps(permitted & keep);
}

int confine_caps(const struct jail *jail, bool root)
{
    uint64_t kept = root || jail->uid == 0 ? kept_caps(jail) : 0;

    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    /* Without no_new_privs the kernel takes filters of SYS_ADMIN alone. The exec takes
     * it away, as it is in no bounding set. */
    if (!(jail->flags & JAIL_NO_NEW_PRIVS))
        kept |= kept_caps(jail) ? CAP(SYS_ADMIN) : 0;
    return set_caps(kept);
}

int confine_as_program(const struct jail *jail)
{
    if (jail->flags & JAIL_NO_NEW_PRIVS || !kept_caps(jail))
        return 0;
    return confine_keep_caps(~CAP(SYS_ADMIN));
}

/* What no exec can give back. */
static bool is_bounded(uint64_t kept)
{
    for (unsigned long cap = 0; cap < CAPS_END; cap++)
        if (!(kept >> cap & 1u) && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            return false;
    return true;
}

/* A listener, 0 without FLAGS, or -errno. */
static int load_filter(const void *data, size_t len, unsigned flags)
{
    struct sock_fprog program = { .len = (unsigned short)(len /
                                                          sizeof(struct sock_filter)),
                                  .filter = (struct sock_filter *)(uintptr_t)data };

    long rc;

    /* SPEC_ALLOW: programs are kept from each other by processes and namespaces;
     * the filter's default of disabling speculation for them costs them up to
     * half their speed and protects nobody else. */
    rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                 SECCOMP_FILTER_FLAG_SPEC_ALLOW | flags, &program);
    return rc < 0 ? -errno : (int)rc;
}

/* To the guest, under the filter already. 0 or -errno. */
static int send_listener(int to, int listener)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof listener)] = { 0 };
    struct iovec iov = { room, 1 };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof room };
    struct cmsghdr *c = (struct cmsghdr *)(void *)room;

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof listener);
    memcpy(CMSG_DATA(c), &listener, sizeof listener);
    return sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Where nobody can listen, because another listener is there already or the kernel is
 * too old, the filter answers by itself. */
static int load_counting(const struct guest *g, int listen_fd)
{
    size_t len = g->jail.filters[0].len;
    int fd = listen_fd < 0
                 ? -ENOSYS
                 : load_filter(g->counting, len, SECCOMP_FILTER_FLAG_NEW_LISTENER);

    if (fd < 0)
        return load_filter(g->jail.filters[0].data, len, 0);
    return send_listener(listen_fd, fd);
}

int confine_seccomp(const struct guest *g, int listen_fd)
{
    const struct jail *jail = &g->jail;
    int rc = jail->filters[0].len ? load_counting(g, listen_fd) : -EINVAL;

    for (size_t i = 1; rc >= 0 && i < JAIL_FILTERS; i++)
        if (jail->filters[i].len)
            rc = load_filter(jail->filters[i].data, jail->filters[i].len, 0);
    return rc;
}

/* The last look before the filters, which say themselves whether they were loaded. */
int confine_check(const struct jail *jail)
{
    uint64_t permitted = 0, any = 0;

    if (!(fcntl(3, F_GETFD) & FD_CLOEXEC))
        return -EBADF;
    if ((jail->flags & JAIL_DROP_CAPS) && (get_caps(&permitted, &any) < 0 || any))
        return -EPERM;
    if ((jail->flags & JAIL_ROOT_CAPS) && !is_bounded(ROOT_CAPS))
        return -EPERM;
    if ((jail->flags & JAIL_NO_NEW_PRIVS) &&
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return -EPERM;
    return 0;
}

/*
 * A user namespace for programs alone. The kernel holds RLIMIT_NPROC against all
 * processes of a user on the host, but counts those of each user namespace apart: in
 * one of their own, programs are counted and nobody else is.
 */

/* Before Linux 5.14 they were counted together. */
static bool counts_apart(void)
{
    struct utsname u;
    char *end = NULL;
    unsigned long major = 0;

    if (uname(&u) < 0)
        return false;
    major = strtoul(u.release, &end, 10);
    return major > 5 || (major == 5 && *end == '.' && strtoul(end + 1, NULL, 10) >= 14);
}

static bool put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        (void)close(fd);
    return done;
}

/* Each id is itself there, so that files belong to whom they did. */
static bool map_self(const char *path, unsigned id)
{
    char text[40];

    (void)snprintf(text, sizeof text, "%u %u 1", id, id);
    return put(path, text);
}

/* Its namespace is what it is for. Apart from the guest's memory, so that it may be
 * dumpable, to whom alone its own files in /proc belong. */
static _Noreturn void stand_in(const struct guest *g, int fd)
{
    unsigned uid = getuid(), gid = getgid();

    /* The limit that the guest has now bounds the whole namespace for good. */
    if (setrlimit(RLIMIT_SIGPENDING, &g->pending) == 0 &&
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 && unshare(CLONE_NEWUSER) == 0 &&
        put("/proc/self/setgroups", "deny") && map_self("/proc/self/uid_map", uid) &&
        map_self("/proc/self/gid_map", gid))
        (void)!write(fd, "", 1);
    (void)close(fd);
    for (;;)
        (void)poll(NULL, 0, -1);
}

static int take_namespace(pid_t pid, int fd)
{
    char path[40], byte;

    if (read(fd, &byte, 1) != 1)
        return -1;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int users_make(const struct guest *g)
{
    int ends[2], fd = -1;
    pid_t pid;

    if (!counts_apart() || pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0)
        stand_in(g, ends[1]);
    (void)close(ends[1]);
    if (pid > 0) {
        fd = take_namespace(pid, ends[0]);
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    (void)close(ends[0]);
    return fd;
}

int users_enter(int fd)
{
    return setns(fd, CLONE_NEWUSER) < 0 ? -errno : 0;
}
