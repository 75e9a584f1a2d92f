/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>

#include "base/auto.h"
#include "base/io.h"
#include "keeper/root/keeper.h"
#include "keeper/talk/talk.h"

static const struct lent_zygote empty = { .report_fd = -1, .fds = { -1, -1 } };

static void clear(struct lent_zygote *n)
{
    auto_fd_(&n->report_fd);
    auto_fd_(&n->fds[0]);
    auto_fd_(&n->fds[1]);
    *n = empty;
}

void zygotes_init(struct keeper *k)
{
    for (size_t i = 0; i < KEEPER_ZYGOTES; i++)
        k->zygotes[i] = empty;
    /* Numbers of an earlier keeper's are not met again. */
    k->next_zygote = (k->restarts << 16) + 1;
}

struct lent_zygote *zygotes_add(struct keeper *k, int *theirs)
{
    int ends[2];

    for (size_t i = 0; i < KEEPER_ZYGOTES; i++) {
        struct lent_zygote *n = &k->zygotes[i];

        if (n->warden || n->report_fd >= 0)
            continue;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                       ends) < 0)
            return NULL;
        *n = empty;
        n->report_fd = ends[0];
        n->number = k->next_zygote++;
        *theirs = ends[1];
        return n;
    }
    return NULL;
}

/* From our own child, whose word is good: it has our memory and our rights. */
static void take(struct lent_zygote *n)
{
    auto_talk_fds struct talk_fds fds = { .count = 0 };
    uint8_t buf[16];

    if (n->report_fd < 0 || n->fds[0] >= 0 ||
        talk_receive(n->report_fd, buf, sizeof(buf), &fds) <= 0 || fds.count != 2)
        return;
    n->fds[0] = fd_take(&fds.fd[0]);
    n->fds[1] = fd_take(&fds.fd[1]);
}

void zygotes_hear(struct keeper *k)
{
    for (size_t i = 0; i < KEEPER_ZYGOTES; i++)
        take(&k->zygotes[i]);
}

void zygotes_drop(struct keeper *k, pid_t warden)
{
    for (size_t i = 0; i < KEEPER_ZYGOTES; i++)
        if (k->zygotes[i].warden == warden)
            clear(&k->zygotes[i]);
}

const struct lent_zygote *zygotes_find(const struct keeper *k, uint32_t number)
{
    for (size_t i = 0; i < KEEPER_ZYGOTES; i++)
        if (k->zygotes[i].warden && k->zygotes[i].number == number &&
            k->zygotes[i].fds[0] >= 0)
            return &k->zygotes[i];
    return NULL;
}
