/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/client/ask.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/fail.h"

int ask_gone(struct vial_error *err, const char *what)
{
    (void)fail(err, VIAL_E_KEEPER, "%s: the keeper is gone, or does not answer", what);
    return fail_remedy(err, "ask again: it is started anew; if this goes on, see the "
                            "daemon's log");
}

/* 1 when FD can be read, or its other side is gone. */
int ask_wait(int fd, short events, int timeout_ms)
{
    struct pollfd ready = { .fd = fd, .events = events };
    int rc;

    do
        rc = poll(&ready, 1, timeout_ms);
    while (rc < 0 && errno == EINTR);
    return rc;
}

/* Sends P with one end of a new pair, and gives the other. */
int ask_send(int fd, const struct pack *p, const char *what, struct vial_error *err)
{
    int ends[2];
    int rc;

    if (p->len > TALK_MAX)
        return fail(err, VIAL_E_VALUE, "%s: the plan is longer than %u bytes", what,
                    TALK_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return fail_sys(err, "make a socket pair");
    auto_fd int mine = ends[0];
    auto_fd int theirs = ends[1];

    rc = talk_send(fd, p, &theirs, 1);
    if (rc == -EAGAIN && ask_wait(fd, POLLOUT, ASK_MS) == 1)
        rc = talk_send(fd, p, &theirs, 1);
    if (rc == -ENOMEM)
        return fail_memory(err);
    return rc < 0 ? ask_gone(err, what) : fd_take(&mine);
}

void heard_done(struct heard *h)
{
    free(h->data);
    talk_fds_done(&h->fds);
}

int ask_hear(int fd, int timeout_ms, struct heard *out, const char *what,
             struct vial_error *err)
{
    ssize_t n = 0;
    uint32_t verb;

    out->data = malloc(TALK_MAX);
    if (!out->data)
        return fail_memory(err);
    if (ask_wait(fd, POLLIN, timeout_ms) == 1)
        n = talk_receive(fd, out->data, TALK_MAX, &out->fds);
    if (n <= 0)
        return ask_gone(err, what);
    out->u = (struct unpack){ .data = out->data, .len = (size_t)n };
    verb = unpack_u32(&out->u);
    if (verb == TALK_GOOD)
        return 0;
    if (verb != TALK_BAD)
        return fail(err, VIAL_E_KEEPER, "%s: the keeper's answer makes no sense", what);
    talk_read_error(&out->u, err);
    return -1;
}

/* A question with one answer. */
int ask_once(int fd, enum talk_verb verb, struct heard *out, const char *what,
             struct vial_error *err)
{
    struct pack p = { 0 };
    auto_fd int pair = -1;

    pack_u32(&p, verb);
    pair = ask_send(fd, &p, what, err);
    pack_done(&p);
    if (pair < 0)
        return -1;
    return ask_hear(pair, ASK_MS, out, what, err);
}
