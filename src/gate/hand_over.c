/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gate/gate.h"

int secrets_watch(struct gate *g)
{
    if (!g->secret_count)
        return 0;
    return relay_watch(&g->relay, GATE_SECRETS_FD, EPOLLIN, relay_tag(TAG_SECRETS, 0));
}

/* Both descriptors stay ours, too. */
static int send_pair(const struct secrets_hand *hand, const int fds[2])
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))] = { 0 };
    struct secrets_hand copy = *hand;
    struct iovec iov = { &copy, sizeof copy };
    struct msghdr m = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = room,
                        .msg_controllen = sizeof room };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
    return sendmsg(GATE_SECRETS_FD, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 0;
}

int secrets_take(struct gate *g, const struct connection *c, int fd)
{
    struct secrets_hand hand = { .id = c->channel->id, .port = c->port };
    int pair[2], give[2];
    int rc;

    if (!name_rules_have(g->secrets, g->secret_count, c->name, c->port))
        return fd;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        (void)close(fd);
        return -1;
    }
    (void)snprintf(hand.name, sizeof hand.name, "%s", c->name);
    give[0] = pair[1];
    give[1] = fd;
    rc = send_pair(&hand, give);
    (void)close(pair[1]);
    (void)close(fd);
    if (rc == 0)
        return pair[0];
    (void)close(pair[0]);
    return -1;
}

void secrets_hear(struct gate *g)
{
    struct secrets_word word;
    ssize_t n = 0;

    while (g->secret_count && (n = recv(GATE_SECRETS_FD, &word, sizeof word,
                                        MSG_DONTWAIT)) == sizeof word) {
        struct connection *c = connection_find(g, word.id);

        if (c && word.verdict < GATE_VERDICT_COUNT)
            c->verdict = (enum gate_verdict)word.verdict;
    }
    if (n == 0 && g->secret_count) /* it is gone: connections to it fail from now on */
        (void)epoll_ctl(g->relay.epoll_fd, EPOLL_CTL_DEL, GATE_SECRETS_FD, NULL);
}
