/* SPDX-License-Identifier: Apache-2.0 */

/*
 * System calls that a filter refuses, counted by number. The filter asks us instead of
 * answering itself, and we always give the answer that it would have given: EPERM. No
 * call is ever let through here. Other refusals (ENOSYS above all, by which C libraries
 * find their way) stay the filter's own. If we are gone, the kernel refuses.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/guest.h"

#define AT_ONCE  32  /* answered before others have their turn */
#define ROOM_MAX 256 /* more than the kernel's messages need */

/* The system calls that one program and its children were refused. */
struct denied {
    struct {
        uint32_t number;
        uint64_t count, told;
    } calls[DENIED_MAX];
    size_t used;
};

/* The kernel writes as much as its own messages are long. */
static bool messages_fit(void)
{
    struct seccomp_notif_sizes sizes;

    return syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0 &&
           sizes.seccomp_notif <= ROOM_MAX && sizes.seccomp_notif_resp <= ROOM_MAX;
}

/* A copy of the filter in which EPERM is asked for. Without it, refusals are not
 * counted, and nothing else changes. */
void denied_prepare(struct guest *g)
{
    size_t len = g->jail.filters[0].len;
    struct sock_filter *f = NULL;

    if (!(g->jail.flags & JAIL_COUNT) || !len || !messages_fit())
        return;
    f = malloc(len);
    if (!f)
        return;
    memcpy(f, g->jail.filters[0].data, len);
    for (size_t i = 0; i < len / sizeof *f; i++)
        if (f[i].code == (BPF_RET | BPF_K) && f[i].k == (SECCOMP_RET_ERRNO | EPERM))
            f[i].k = SECCOMP_RET_USER_NOTIF;
    g->counting = f;
}

/* Where the child puts its listener, and where we find it: or both -1. */
void denied_pair(const struct guest *g, int pair[2])
{
    if (!g->counting || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
        pair[0] = pair[1] = -1;
}

static int receive(int from)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))] = { 0 };
    char byte;
    struct iovec iov = { &byte, 1 };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof room };
    const struct cmsghdr *c = (const struct cmsghdr *)(const void *)room;
    int fd = -1;

    if (recvmsg(from, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == 1 &&
        message.msg_controllen >= CMSG_LEN(sizeof fd) && c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* The program runs, or has failed to. */
void denied_listen(struct job *j, int pair[2])
{
    if (pair[0] < 0)
        return;
    (void)close(pair[1]);
    j->denied_fd = receive(pair[0]);
    (void)close(pair[0]);
    if (j->denied_fd >= 0)
        j->denied = calloc(1, sizeof *j->denied);
}

static void tell(struct guest *g, struct job *j, size_t i)
{
    struct pack p = { 0 };

    pack_u32(&p, j->denied->calls[i].number);
    pack_u64(&p, j->denied->calls[i].count);
    stream_put(g, j, WIRE_DENIED, 0, &p);
    pack_done(&p);
    j->denied->calls[i].told = j->denied->calls[i].count;
}

/* The first of each is told at once, so that it is known whatever ends the run. */
static void count(struct guest *g, struct job *j, uint32_t number)
{
    struct denied *d = j->denied;
    size_t i = 0;

    if (!d)
        return;
    while (i < d->used && d->calls[i].number != number)
        i++;
    if (i == DENIED_MAX)
        return;
    if (i == d->used)
        d->calls[d->used++].number = number;
    if (d->calls[i].count++ == 0)
        tell(g, j, i);
}

/* False: there is none. */
static bool answer(struct guest *g, struct job *j)
{
    struct pollfd p = { .fd = j->denied_fd, .events = POLLIN };
    _Alignas(8) char asked[ROOM_MAX] = { 0 };
    _Alignas(8) char answered[ROOM_MAX] = { 0 };
    struct seccomp_notif *n = (struct seccomp_notif *)(void *)asked;
    struct seccomp_notif_resp *r = (struct seccomp_notif_resp *)(void *)answered;

    if (poll(&p, 1, 0) != 1 || !(p.revents & POLLIN) ||
        ioctl(j->denied_fd, SECCOMP_IOCTL_NOTIF_RECV, n) < 0)
        return false;
    r->id = n->id;
    r->error = -EPERM;
    (void)ioctl(j->denied_fd, SECCOMP_IOCTL_NOTIF_SEND, r); /* or it was killed */
    count(g, j, (uint32_t)n->data.nr);
    return true;
}

void denied_turn(struct guest *g, struct job *j, int revents)
{
    unsigned n = 0;

    if (!revents || j->denied_fd < 0)
        return;
    while (n < AT_ONCE && answer(g, j))
        n++;
    if (n == 0 && !(revents & POLLIN)) { /* nobody is left who could ask */
        (void)close(j->denied_fd);
        j->denied_fd = -1;
    }
}

/* Before the exit: what was counted since each was told. */
void denied_finish(struct guest *g, struct job *j)
{
    for (size_t i = 0; j->denied && i < j->denied->used; i++)
        if (j->denied->calls[i].told != j->denied->calls[i].count)
            tell(g, j, i);
}

void denied_release(struct job *j)
{
    if (j->denied_fd >= 0)
        (void)close(j->denied_fd);
    free(j->denied);
}

/*
 * How often programs tried a network where there is none, by the counters of the
 * vessel's own network namespace: what had no route, and datagrams to a port of
 * loopback at which nobody listens, which is how a lookup of a name looks without a
 * name server. Only read where the host says that the namespace is the vessel's own.
 */

#define TEXT_MAX 4096

/* The value under NAME in the two lines of TEXT that begin with KIND, the first of
 * which has the names. 0: there is none. */
static uint64_t in_table(const char *text, const char *kind, const char *name)
{
    const char *names = strstr(text, kind);
    const char *values = names ? strstr(names + 1, kind) : NULL;
    size_t len = strlen(name);

    while (names && values && *names && *names != '\n') {
        if (strncmp(names, name, len) == 0 && (names[len] == ' ' || names[len] == '\n'))
            return strtoull(values, NULL, 10);
        names += strcspn(names, " \n");
        values += strcspn(values, " \n");
        if (*names != ' ' || *values != ' ')
            return 0;
        names++;
        values++;
    }
    return 0;
}

static uint64_t in_list(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Opened once: sessions ask again and again. */
static bool read_text(int *fd, const char *path, char text[TEXT_MAX])
{
    ssize_t n;

    if (*fd < 0)
        *fd = open(path, O_RDONLY | O_CLOEXEC);
    n = *fd < 0 ? -1 : pread(*fd, text, TEXT_MAX - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

uint64_t refused_since(struct guest *g)
{
    char text[TEXT_MAX];
    uint64_t all = 0;
    uint64_t before = g->refused;

    if (!(g->jail.flags & JAIL_NO_NETWORK))
        return 0;
    if (read_text(&g->refused_fd[0], "/proc/net/snmp", text))
        all +=
            in_table(text, "Ip: ", "OutNoRoutes") + in_table(text, "Udp: ", "NoPorts");
    if (read_text(&g->refused_fd[1], "/proc/net/snmp6", text))
        all += in_list(text, "\nIp6OutNoRoutes") + in_list(text, "\nUdp6NoPorts");
    g->refused = all;
    return all > before ? all - before : 0;
}
