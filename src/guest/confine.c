/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/guest.h"

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

/* Asking costs far less than dropping what is not there; but who has the first, has
 * not lost any, most likely. */
int confine_bounding(void)
{
    bool ask = prctl(PR_CAPBSET_READ, 0, 0, 0, 0) != 1;

    for (unsigned long cap = 0; cap < CAPS_END; cap++) {
        int rc = ask && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 0 ? 0 : drop_bound(cap);

        if (rc > 0) /* past the last one */
            return cap ? 0 : -EINVAL;
        if (rc < 0)
            return rc;
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

int confine_ids(const struct guest *g)
{
    uid_t uid = g->jail.uid, u[3];
    gid_t gid = g->jail.gid, i[3];
    int rc = drop_groups(g);

    if (rc < 0)
        return rc;
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

int confine_keep_caps(uint64_t keep)
{
    uint64_t permitted = 0, any = 0;
    int rc = get_caps(&permitted, &any);

    return rc < 0 ? rc : set_caps(permitted & keep);
}

int confine_caps(void)
{
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    return set_caps(0);
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
    if ((jail->flags & JAIL_NO_NEW_PRIVS) &&
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return -EPERM;
    return 0;
}
