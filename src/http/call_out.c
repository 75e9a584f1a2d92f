/* SPDX-License-Identifier: Apache-2.0 */
#include "http/call_out.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http/out_rules.h"

#define CALLS_MOST 64u
#define STREAM_FD  3 /* of a child, as of any vial-tls */
#define REPORT_FD  4
#define ABOVE      10
#define NOBODY     65534
#define GRACE_S    2u

/* Names are looked up in files of the host, so that these stay readable until a child
 * has connected. */
static int give_up_rights(void)
{
    const struct rlimit none = { 0, 0 };

    if (setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_FSIZE, &none) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    if (geteuid() == 0 &&
        (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
         setresuid(NOBODY, NOBODY, NOBODY) < 0))
        return -1;
    return geteuid() == 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -1 : 0;
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)close(fds[i]);
}

/* The message and its two descriptors; false: nobody is there any more. */
static bool hear(struct call_out_message *m, int fds[2], bool *whole)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))] = { 0 };
    struct iovec text = { .iov_base = m, .iov_len = sizeof(*m) };
    struct msghdr all = { .msg_iov = &text,
                          .msg_iovlen = 1,
                          .msg_control = room,
                          .msg_controllen = sizeof(room) };
    ssize_t n = recvmsg(CALL_OUT_FD, &all, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&all) : NULL;
    size_t count =
        c && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

    count = count > 2 ? 2 : count;
    memcpy(fds, c ? CMSG_DATA(c) : (const unsigned char *)room, count * sizeof(int));
    *whole = n == sizeof(*m) && count == 2 && m->timeout_ms > 0 &&
             memchr(m->host, 0, sizeof(m->host)) && memchr(m->port, 0, sizeof(m->port));
    if (!*whole)
        close_all(fds, count);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* The alarm ends it, wherever it is. */
static void become_call(const struct call_out_message *m, const int fds[2],
                        const struct out_rules *rules)
{
    int high[2] = { dup2(fds[0], ABOVE), dup2(fds[1], ABOVE + 1) };

    (void)alarm((unsigned)m->timeout_ms / 1000 + GRACE_S);
    if (high[0] < 0 || high[1] < 0 || dup2(high[0], STREAM_FD) < 0 ||
        dup2(high[1], REPORT_FD) < 0)
        _exit(2);
    (void)syscall(SYS_close_range, REPORT_FD + 1, ~0u, 0);
    _exit(call_out_make(m, rules));
}

/* Waits for one to end if there are too many. */
static void reap(unsigned *calls)
{
    while (*calls > 0 && waitpid(-1, NULL, *calls < CALLS_MOST ? WNOHANG : 0) > 0)
        (*calls)--;
}

int call_out_serve(char *const *rules)
{
    struct out_rules *list = calloc(1, sizeof(*list));
    struct call_out_message m;
    unsigned calls = 0;
    int fds[2];
    bool whole;

    for (; list && *rules; rules++)
        if (out_rules_add(list, *rules))
            return 2;
    (void)syscall(SYS_close_range, CALL_OUT_FD + 1, ~0u, 0);
    if (!list || give_up_rights() < 0)
        return 2;
    while (hear(&m, fds, &whole)) {
        pid_t pid = whole ? fork() : -1;

        if (pid == 0)
            become_call(&m, fds, list);
        calls += pid > 0;
        if (whole)
            close_all(fds, 2);
        reap(&calls);
    }
    free(list);
    return 0;
}
