/* SPDX-License-Identifier: Apache-2.0 */

/* A process that was forked elsewhere, is confined already and has become our
 * child. It waits for a program, which it gets instead of a fork of ours; if it is
 * gone, nothing is lost but time. */

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/guest.h"

#define SENT_MAX (128u << 10) /* less than a socket holds, so that it never blocks */

void adopt_take(struct guest *g, pid_t pid, int fd)
{
    char path[32];

    if (g->adopted_fd >= 0 || pid < 2 || fd < 0)
        guest_end(g, 1);
    g->adopted_pid = pid;
    g->adopted_fd = fd;
    tree_path(path, pid, "comm");
    if (g->pid1) /* else /proc may show other numbers */
        g->adopted_name_fd = open(path, O_RDONLY | O_CLOEXEC);
}

static void forget(struct guest *g)
{
    (void)close(g->adopted_fd); /* which ends one that was not given any program */
    if (g->adopted_name_fd >= 0)
        (void)close(g->adopted_name_fd);
    g->adopted_fd = g->adopted_name_fd = -1;
}

void adopt_reaped(struct guest *g, pid_t pid)
{
    if (g->adopted_fd >= 0 && pid == g->adopted_pid)
        forget(g);
}

static bool send_all(int to, const struct pack *p, const struct child_pipes *pipes)
{
    int fds[4];
    size_t count = 0;
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof fds)] = { 0 };
    struct iovec iov = { p->data, p->len };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room };
    struct cmsghdr *c;
    ssize_t n;

    if (pipes->in >= 0)
        fds[count++] = pipes->in;
    fds[count++] = pipes->out;
    fds[count++] = pipes->err;
    fds[count++] = pipes->status;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (size_t i = 0; i < count; i++)
        ((int *)(void *)CMSG_DATA(c))[i] = fds[i];
    do
        n = sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)p->len;
}

bool adopt_give(struct guest *g, struct job *j, const struct exec_message *m,
                const struct child_pipes *pipes)
{
    struct exec_message told = *m;
    struct pack p = { 0 };
    bool given = false;

    if (g->adopted_fd < 0 || m->terminal)
        return false;
    told.farewell = m->farewell && g->adopted_name_fd >= 0; /* or nobody could hear */
    exec_write(&p, &told);
    given = !p.bad && p.len <= SENT_MAX && send_all(g->adopted_fd, &p, pipes);
    pack_done(&p);
    if (given)
        j->pid = g->adopted_pid;
    if (given && told.farewell) {
        j->name_fd = g->adopted_name_fd;
        g->adopted_name_fd = -1;
    }
    forget(g);
    return given;
}
