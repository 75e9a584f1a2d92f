/* SPDX-License-Identifier: Apache-2.0 */

/* A process that was forked elsewhere, is confined already and has become our
 * child. It waits for a program, which it gets instead of a fork of ours; if it is
 * gone, nothing is lost but time. All that does not depend on the program is done when
 * it comes: its pipes are made, and memory is there for the rest. It is not woken for
 * them, but gets them with the program. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/proc_tree.h"

#define SENT_MAX   (128u << 10) /* less than a socket holds, so that it never blocks */
#define GIVEN_MAX  4
#define INTERRUPTS 1000u /* in a row: then it is no signal that interrupts */

static bool send_all(int to, const void *data, size_t len, const int *fds, size_t count)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int) * GIVEN_MAX)] = { 0 };
    struct iovec iov = { (void *)(uintptr_t)data, len };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    unsigned tries = 0;
    ssize_t n;

    if (count) {
        struct cmsghdr *c = (struct cmsghdr *)(void *)room;

        message.msg_control = room;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    }
    do
        n = sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR && ++tries < INTERRUPTS);
    return n == (ssize_t)len;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void forget(struct guest *g)
{
    close_fd(&g->adopted.fd); /* which ends one that was not given any program */
    close_fd(&g->adopted.name_fd);
    for (int i = 0; i < 2; i++) {
        close_fd(&g->adopted.ours[i]);
        close_fd(&g->adopted.theirs[i]);
    }
    g->adopted.told = false;
}

static bool make_output(struct guest *g)
{
    for (int i = 0; i < 2; i++) {
        if (exec_make_pipe(&g->adopted.ours[i], &g->adopted.theirs[i], false) < 0)
            return false;
        exec_widen_pipe(g->adopted.ours[i]);
    }
    return true;
}

void adopt_take(struct guest *g, pid_t pid, int fd)
{
    char path[32];

    if (g->adopted.fd >= 0 || pid < 2 || fd < 0)
        guest_end(g, 1);
    g->adopted.pid = pid;
    g->adopted.fd = fd;
    tree_path(path, pid, "comm");
    if (g->pid1) /* else /proc may show other numbers */
        g->adopted.name_fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    /* One that was killed, and reaped when nobody knew it yet, would be waited for
     * without end: its maker may hold the other end of its socket a little longer. */
    if (!make_output(g) || (g->pid1 && g->adopted.name_fd < 0))
        forget(g);
}

void adopt_reaped(struct guest *g, pid_t pid)
{
    if (g->adopted.fd >= 0 && pid == g->adopted.pid)
        forget(g);
}

static int take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

/* The descriptors that an adopted interpreter gets with its program: output, stdin if
 * there is one, and where to report. */
struct given {
    int fds[GIVEN_MAX];
    size_t count;
};

static void give_output(struct guest *g, struct given *out)
{
    for (int i = 0; i < 2; i++)
        out->fds[out->count++] = take_fd(&g->adopted.theirs[i]);
}

static bool make_pipes(struct job *j, const struct exec_message *m, struct given *out)
{
    int fd = -1;

    if (!m->stdin_closed) {
        if (exec_make_pipe(&j->fd[0], &fd, true) < 0)
            return false;
        exec_widen_pipe(j->fd[0]);
        out->fds[out->count++] = fd;
    }
    if (m->cwd) {
        if (exec_make_pipe(&j->status_fd, &fd, false) < 0)
            return false;
        out->fds[out->count++] = fd;
    }
    return true;
}

static void close_given(struct given *g)
{
    while (g->count)
        (void)close(g->fds[--g->count]);
}

static bool send_message(struct guest *g, const struct exec_message *m,
                         const struct given *given)
{
    struct pack *p = &g->adopted.message;

    p->len = 0;
    exec_write(p, m);
    return !p->bad && p->len <= SENT_MAX &&
           send_all(g->adopted.fd, p->data, p->len, given->fds, given->count);
}

/* It gets ready with the message, and begins with this. */
static bool send_go(const struct guest *g)
{
    return send_all(g->adopted.fd, "", 1, NULL, 0);
}

static bool give(struct guest *g, struct job *j, const struct exec_message *m)
{
    struct given given = { 0 };
    bool good = false;

    give_output(g, &given);
    good = make_pipes(j, m, &given) && send_message(g, m, &given);
    if (good)
        (void)send_go(g); /* or it is gone, and has said why */
    close_given(&given);
    if (!good) {
        close_fd(&j->fd[0]);
        close_fd(&j->status_fd);
    }
    return good;
}

/* The message as the interpreter gets it: without the directory in which it is anyway,
 * and may tell its exit early only where somebody can hear it. */
static struct exec_message as_told(const struct guest *g, const struct exec_message *m)
{
    struct exec_message told = *m;

    if (m->cwd && g->jail.workdir && strcmp(m->cwd, g->jail.workdir) == 0)
        told.cwd = NULL;
    told.early_exit = m->early_exit && g->adopted.name_fd >= 0;
    return told;
}

bool adopt_waits(const struct guest *g)
{
    return g->adopted.fd >= 0 && !g->adopted.told;
}

/* Only what needs no more pipes; the rest can wait. A message that cannot be read ends
 * the guest when it is its turn. */
void adopt_tell(struct guest *g, const struct frame *exec)
{
    struct given given = { 0 };
    struct unpack u = { .data = exec->payload, .len = exec->len };
    struct exec_message m, told;

    if (exec_read(&u, &m) < 0)
        return;
    told = as_told(g, &m);
    if (!m.terminal && m.stdin_closed && !told.cwd) {
        give_output(g, &given);
        g->adopted.told = send_message(g, &told, &given);
        close_given(&given);
    }
    exec_done(&m);
}

bool adopt_give(struct guest *g, struct job *j, const struct exec_message *m)
{
    struct exec_message told;
    bool given = false;

    if (g->adopted.fd < 0 || m->terminal)
        return false;
    told = as_told(g, m);
    given = g->adopted.told ? send_go(g) : give(g, j, &told);
    if (given) {
        j->pid = g->adopted.pid;
        j->fd[1] = take_fd(&g->adopted.ours[0]);
        j->fd[2] = take_fd(&g->adopted.ours[1]);
        j->name_fd = told.early_exit ? take_fd(&g->adopted.name_fd) : -1;
    }
    if (given && !g->prepared)
        g->adopted_ran = true;
    forget(g);
    return given;
}
