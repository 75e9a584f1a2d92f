/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include "base/auto.h"
#include "base/io.h"
#include "driver/kept/talk.h"
#include "keeper/keeper.h"

static const struct nest empty = { .report_fd = -1, .fds = { -1, -1 } };

static void clear(struct nest *n)
{
    auto_fd_(&n->report_fd);
    auto_fd_(&n->fds[0]);
    auto_fd_(&n->fds[1]);
    *n = empty;
}

void nests_init(struct keeper *k)
{
    for (size_t i = 0; i < KEEPER_NESTS; i++)
        k->nests[i] = empty;
    /* Numbers of an earlier keeper's are not met again. */
    k->next_nest = (k->restarts << 16) + 1;
}

struct nest *nests_add(struct keeper *k, int *theirs)
{
    int ends[2];

    for (size_t i = 0; i < KEEPER_NESTS; i++) {
        struct nest *n = &k->nests[i];

        if (n->warden || n->report_fd >= 0)
            continue;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                       ends) < 0)
            return NULL;
        *n = empty;
        n->report_fd = ends[0];
        n->number = k->next_nest++;
        *theirs = ends[1];
        return n;
    }
    return NULL;
}

/* From our own child, whose word is good: it has our memory and our rights. */
static void take(struct nest *n)
{
    auto_talk_fds struct talk_fds fds = { .count = 0 };
    uint8_t buf[16];

    if (n->report_fd < 0 || n->fds[0] >= 0 ||
        talk_receive(n->report_fd, buf, sizeof(buf), &fds) <= 0 || fds.count != 2)
        return;
    n->fds[0] = fd_take(&fds.fd[0]);
    n->fds[1] = fd_take(&fds.fd[1]);
}

void nests_hear(struct keeper *k)
{
    for (size_t i = 0; i < KEEPER_NESTS; i++)
        take(&k->nests[i]);
}

void nests_drop(struct keeper *k, pid_t warden)
{
    for (size_t i = 0; i < KEEPER_NESTS; i++)
        if (k->nests[i].warden == warden)
            clear(&k->nests[i]);
}

const struct nest *nests_find(const struct keeper *k, uint32_t number)
{
    for (size_t i = 0; i < KEEPER_NESTS; i++)
        if (k->nests[i].warden && k->nests[i].number == number &&
            k->nests[i].fds[0] >= 0)
            return &k->nests[i];
    return NULL;
}
