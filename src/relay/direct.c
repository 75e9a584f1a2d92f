/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A guest hands each connection that it has accepted to its gate, which then has both
 * ends: bytes pass through one process less, and without frames. What comes with a
 * frame is the guest's choice: it must be a connection over TCP, and each call for it
 * says itself that it must not wait. Nothing is looked at before it is read, as the
 * guest could read it away.
 */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "relay/inside.h"

/* What waits beyond a window is of what all channels have to spare. */
static uint32_t beyond(const struct relay_rest *rest)
{
    return rest->cap > RELAY_WINDOW ? (uint32_t)(rest->cap - RELAY_WINDOW) : 0;
}

bool direct_send(struct relay *r, const uint8_t *frame, size_t len, int fd)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec iov = { (void *)(uintptr_t)frame, len };
    struct msghdr m = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = room,
                        .msg_controllen = sizeof room };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    ssize_t n;

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    n = sendmsg(r->link_fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0 && n < (ssize_t)len)
        r->broken = true; /* so few bytes go whole, or not at all */
    return n > 0;
}

static void keep_handed(struct relay *r, const struct msghdr *m)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(m);
    int fd = -1;

    if (!c)
        return;
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    if (fd >= 0 && r->handed_count < RELAY_HANDED && !(m->msg_flags & MSG_CTRUNC)) {
        r->handed[r->handed_count++] = fd;
        return;
    }
    if (fd >= 0)
        (void)close(fd);
    r->broken = true;
}

ssize_t direct_receive(struct relay *r, void *to, size_t most)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
    struct iovec iov = { to, most };
    struct msghdr m = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = room,
                        .msg_controllen = sizeof room };
    ssize_t n = recvmsg(r->link_fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n > 0)
        keep_handed(r, &m);
    return n;
}

static int option(int fd, int which)
{
    int value = -1;
    socklen_t len = sizeof value;

    return getsockopt(fd, SOL_SOCKET, which, &value, &len) < 0 ? -1 : value;
}

static bool is_connection(int fd)
{
    int domain = option(fd, SO_DOMAIN);

    return (domain == AF_INET || domain == AF_INET6) &&
           option(fd, SO_TYPE) == SOCK_STREAM && option(fd, SO_PROTOCOL) == IPPROTO_TCP;
}

int direct_claim(struct relay *r)
{
    int fd = r->handed_count ? r->handed[0] : -1;

    if (fd < 0)
        return -1;
    r->handed_count--;
    memmove(r->handed, r->handed + 1, r->handed_count * sizeof *r->handed);
    if (is_connection(fd))
        return fd;
    (void)close(fd);
    return -1;
}

/* Whether its end, however that comes, is a reset. */
static void reset_at_end(int fd, bool reset)
{
    const struct linger how = { .l_onoff = reset };

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof how);
}

void direct_turn_away(int fd)
{
    reset_at_end(fd, true);
    (void)close(fd);
}

void direct_begin(struct relay *r, struct relay_channel *c, int fd)
{
    const int one = 1;

    c->other.fd = fd;
    c->other.can_read = c->other.can_write = true;
    reset_at_end(fd, true); /* should we be killed */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* It is a loopback's: a way to be paced, or measured, there is not. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    if (relay_watch(r, fd, RELAY_EDGES, relay_tag(TAG_OTHER, c->id)) < 0)
        relay_close(r, c);
}

/* What TO takes of LEN bytes; the channel may be closed by it. */
static size_t give(struct relay *r, struct relay_channel *c, struct relay_end *to,
                   const uint8_t *data, size_t len)
{
    ssize_t n;

    do
        n = send(to->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN) {
        relay_close(r, c);
        return 0;
    }
    n = n < 0 ? 0 : n;
    to->can_write = (size_t)n == len; /* else the next edge tells of room */
    if (to == &c->own)
        c->to_fd += (uint64_t)n;
    return (size_t)n;
}

/* The relay's own buffer again, if it has given its own away. */
static void recycle(struct relay *r, struct relay_rest *rest)
{
    r->spare += beyond(rest);
    if (!r->piece && rest->cap == RELAY_PIECE) {
        r->piece = rest->data;
        *rest = (struct relay_rest){ 0 };
    } else {
        rest_free(rest);
    }
}

static void give_rest(struct relay *r, struct relay_channel *c, struct relay_end *to)
{
    struct relay_rest *rest = &to->rest;
    size_t n = give(r, c, to, rest->data + rest->at, rest->len);

    rest->at += n;
    rest->len -= n;
    if (!rest->len)
        recycle(r, rest);
}

/* LEN bytes from AT on of the relay's own buffer wait for TO: the buffer goes along, as
 * far as there is some to spare. */
static void keep(struct relay *r, struct relay_channel *c, struct relay_end *to,
                 size_t at, size_t len)
{
    if (r->spare >= RELAY_PIECE - RELAY_WINDOW) {
        to->rest = (struct relay_rest){ r->piece, RELAY_PIECE, at, len };
        r->piece = NULL;
    } else if (!rest_keep(&to->rest, r->piece + at, len, len)) {
        relay_close(r, c);
        return;
    }
    r->spare -= beyond(&to->rest);
}

/* Up to MOST bytes into the relay's own buffer; 0: none, or the end. */
static size_t take(struct relay *r, struct relay_channel *c, struct relay_end *from,
                   size_t most)
{
    ssize_t n = 0;

    if (!r->piece)
        r->piece = malloc(RELAY_PIECE);
    if (!r->piece) {
        relay_close(r, c);
        return 0;
    }
    do
        n = recv(from->fd, r->piece, most, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN) {
        relay_close(r, c);
        return 0;
    }
    from->ended = n == 0;
    if (n < (ssize_t)most && !from->hung_up)
        from->can_read = false; /* the next edge tells of more */
    if (n < 0)
        from->can_read = false;
    if (n > 0 && from == &c->own)
        c->from_fd += (uint64_t)n;
    return n > 0 ? (size_t)n : 0;
}

static bool wants_take(const struct relay_end *from, const struct relay_end *to)
{
    return from->can_read && !from->ended && !to->rest.len && to->can_write;
}

/* One piece from one end to the other. */
static void flow(struct relay *r, struct relay_channel *c, struct relay_end *from,
                 struct relay_end *to)
{
    size_t most = RELAY_WINDOW, len = 0, given = 0;

    if (to->rest.len && to->can_write)
        give_rest(r, c, to);
    if (!c->gone && wants_take(from, to)) {
        most += r->spare < RELAY_PIECE - most ? r->spare : RELAY_PIECE - most;
        len = take(r, c, from, most);
        given = len ? give(r, c, to, r->piece, len) : 0;
        if (!c->gone && given < len)
            keep(r, c, to, given, len - given);
    }
    if (!c->gone && from->ended && !to->rest.len && !to->shut) {
        to->shut = true;
        (void)shutdown(to->fd, SHUT_WR);
    }
}

static bool wants_gather(const struct relay_channel *c)
{
    return c->other.can_read && !c->other.ended && c->own.rest.len < RELAY_WINDOW;
}

/* Nobody may have it yet, or nobody is there. */
static void gather(struct relay *r, struct relay_channel *c)
{
    size_t len = take(r, c, &c->other, RELAY_WINDOW - c->own.rest.len);

    if (c->gone)
        return;
    if (len && !rest_keep(&c->own.rest, r->piece, len, RELAY_WINDOW))
        relay_close(r, c);
    else if (c->hold && (len || c->other.ended) && r->events->held)
        r->events->held(r->context, c);
}

static bool may_pass(const struct relay_channel *c)
{
    return c->own.fd >= 0 && !c->hold;
}

void direct_turn(struct relay *r, struct relay_channel *c)
{
    if (c->own.fd >= 0)
        flow(r, c, &c->own, &c->other);
    if (!c->gone && may_pass(c))
        flow(r, c, &c->other, &c->own);
    else if (!c->gone && wants_gather(c))
        gather(r, c);
    if (!c->gone && c->own.shut && c->other.shut)
        relay_finish(r, c, false);
}

static bool wants_flow(const struct relay_end *from, const struct relay_end *to)
{
    return (to->rest.len && to->can_write) || wants_take(from, to);
}

bool direct_wants_turn(const struct relay_channel *c)
{
    if (c->gone)
        return false;
    if (c->own.fd >= 0 && wants_flow(&c->own, &c->other))
        return true;
    return may_pass(c) ? wants_flow(&c->other, &c->own) : wants_gather(c);
}

/* The guest may have a copy of it: that would stay among what is watched; and how long
 * its end takes was the guest's to say till now. */
void direct_drop(struct relay *r, struct relay_channel *c)
{
    r->spare += beyond(&c->own.rest) + beyond(&c->other.rest);
    (void)epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, c->other.fd, NULL);
    reset_at_end(c->other.fd, !(c->own.shut && c->other.shut));
    (void)close(c->other.fd);
    rest_free(&c->other.rest);
}

void direct_done(struct relay *r)
{
    while (r->handed_count)
        (void)close(r->handed[--r->handed_count]);
    free(r->piece);
    r->piece = NULL;
}
