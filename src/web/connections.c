/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "web/server.h"

#define NS_PER_S INT64_C(1000000000)
#define BYTES_S  (16u << 10) /* a body comes in at least as fast as this */

static void row_add(struct row *row, struct connection *c)
{
    c->row = row;
    c->next = NULL;
    c->previous = row->last;
    if (row->last)
        row->last->next = c;
    else
        row->first = c;
    row->last = c;
    row->count++;
}

static void row_remove(struct connection *c)
{
    struct row *row = c->row;

    if (c->next)
        c->next->previous = c->previous;
    else
        row->last = c->previous;
    if (c->previous)
        c->previous->next = c->next;
    else
        row->first = c->next;
    row->count--;
    c->row = NULL;
}

/* With the lock held: C stands nowhere. */
static void leave(struct web *web, struct connection *c)
{
    if (!c->row)
        return;
    if (c->row == &web->strangers)
        web->origins[c->origin]--;
    row_remove(c);
}

/* By a secret, so that no stranger can choose who shares its origin. */
static unsigned origin_for(const struct web *web, const void *bytes, size_t count)
{
    struct sha256 hash;
    char text[65];

    sha256_init(&hash);
    sha256_add(&hash, web->secret, sizeof(web->secret));
    sha256_add(&hash, bytes, count);
    sha256_text(&hash, text);
    text[8] = '\0';
    return (unsigned)strtoul(text, NULL, 16) % WEB_ORIGINS;
}

/* One network of a provider's customer is one origin, as is one user of this host. */
static unsigned origin_of(const struct web *web, int fd, uid_t *uid)
{
    struct sockaddr_storage peer = { 0 };
    socklen_t len = sizeof(peer);
    struct ucred user;
    socklen_t user_len = sizeof(user);
    const unsigned char *bytes = (const unsigned char *)&user.uid;
    size_t count = sizeof(user.uid);

    if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0)
        return 0;
    if (peer.ss_family == AF_INET) {
        bytes = (const unsigned char *)&((struct sockaddr_in *)(void *)&peer)->sin_addr;
        count = 4;
    } else if (peer.ss_family == AF_INET6) {
        bytes = ((struct sockaddr_in6 *)(void *)&peer)->sin6_addr.s6_addr;
        /* A host of IPv4 is one whole address, in the last bytes. */
        count = IN6_IS_ADDR_V4MAPPED(&((struct sockaddr_in6 *)(void *)&peer)->sin6_addr)
                    ? 16
                    : 8;
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_len) < 0) {
        return 0;
    } else {
        *uid = user.uid;
    }
    return origin_for(web, bytes, count);
}

/* With the lock held: the oldest from where most of them are. The loop sees the end of
 * it, and closes it. */
static void drop_stranger(struct web *web)
{
    struct connection *victim = web->strangers.first;

    if (!victim)
        return;
    for (struct connection *c = victim->next; c; c = c->next)
        if (web->origins[c->origin] > web->origins[victim->origin])
            victim = c;
    leave(web, victim);
    (void)shutdown(victim->fd, SHUT_RDWR);
}

void sweep_add(struct web *web, struct connection *c, int fd)
{
    const struct web_door *door = web->options.door;
    uid_t uid = (uid_t)-1;
    unsigned origin = origin_of(web, fd, &uid);
    void *caller = NULL;

    *c = (struct connection){ .fd = fd, .origin = origin, .since_ns = clock_now_ns() };
    if (door && uid != (uid_t)-1)
        caller = door->peer(web->options.context, uid);
    (void)pthread_mutex_lock(&web->lock);
    if (door) {
        row_add(&web->strangers, c);
        web->origins[origin]++;
    } else {
        row_add(&web->callers, c);
    }
    if (web->connection_count++ == 0)
        (void)eventfd_write(web->nudge_fd, 1); /* it looks at the time from now on */
    (void)pthread_mutex_unlock(&web->lock);
    if (caller)
        (void)sweep_know(web, c, caller);
    (void)pthread_mutex_lock(&web->lock);
    while (web->strangers.count > web->options.strangers)
        drop_stranger(web);
    (void)pthread_mutex_unlock(&web->lock);
}

bool sweep_know(struct web *web, struct connection *c, void *caller)
{
    const struct web_door *door = web->options.door;
    void *before = c->caller;

    if (!door || before == caller)
        return true;
    if (!door->take(web->options.context, caller, WEB_CONNECTIONS, 1))
        return false;
    (void)pthread_mutex_lock(&web->lock);
    c->caller = caller;
    if (c->row == &web->strangers) {
        leave(web, c);
        row_add(&web->callers, c);
    }
    (void)pthread_mutex_unlock(&web->lock);
    if (before)
        door->give(web->options.context, before, WEB_CONNECTIONS, 1);
    return true;
}

void sweep_remove(struct web *web, struct connection *c)
{
    (void)pthread_mutex_lock(&web->lock);
    leave(web, c);
    web->connection_count--;
    (void)pthread_mutex_unlock(&web->lock);
    if (c->caller)
        web->options.door->give(web->options.context, c->caller, WEB_CONNECTIONS, 1);
}

void sweep_phase(struct web *web, struct connection *c, enum phase phase)
{
    (void)pthread_mutex_lock(&web->lock);
    c->phase = phase;
    c->since_ns = clock_now_ns();
    c->read = c->looked = 0;
    (void)pthread_mutex_unlock(&web->lock);
}

/* libmicrohttpd's own time-out starts anew with each byte, so that one byte now and
 * then would hold a connection for ever. Who is not known has no time to be idle. */
static bool is_late(const struct web *web, const struct connection *c, int64_t now_ns)
{
    int64_t may_s = web->options.idle_s;

    if (c->phase == PHASE_BUSY)
        return false;
    if (c->phase == PHASE_READING)
        may_s = (int64_t)web->options.slow_s + (int64_t)(c->read / BYTES_S);
    else if (c->row == &web->strangers && web->options.slow_s < web->options.idle_s)
        may_s = web->options.slow_s;
    return now_ns - c->since_ns > may_s * NS_PER_S;
}

/* With the lock held. The loop sees an end of file, and closes the connection: with an
 * answer, if it was within a request. */
static void sweep_row(const struct web *web, struct row *row, int64_t now_ns)
{
    for (struct connection *c = row->first; c; c = c->next)
        if (is_late(web, c, now_ns)) {
            bool answers = c->phase == PHASE_READING && !c->told;

            c->told = true;
            (void)shutdown(c->fd, answers ? SHUT_RD : SHUT_RDWR);
        }
}

/* With the lock held. Its body has bytes that nobody read, now as at the last look. */
static bool is_stuck(struct connection *c)
{
    bool same = c->looked == c->read + 1;
    int unread = 0;
    bool waits =
        c->phase == PHASE_READING && ioctl(c->fd, FIONREAD, &unread) == 0 && unread > 0;

    c->looked = waits ? c->read + 1 : 0;
    return same && waits && !c->told;
}

void sweep_stuck(struct web *web)
{
    struct row *rows[] = { &web->callers, &web->strangers };

    (void)pthread_mutex_lock(&web->lock);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (struct connection *c = rows[i]->first; c; c = c->next)
            if (is_stuck(c)) {
                c->told = true;
                answer_late(web, c->fd, 400, "the head of a chunk is too long");
                (void)shutdown(c->fd, SHUT_RDWR);
            }
    (void)pthread_mutex_unlock(&web->lock);
}

void sweep(struct web *web)
{
    int64_t now_ns = clock_now_ns();

    (void)pthread_mutex_lock(&web->lock);
    sweep_row(web, &web->callers, now_ns);
    sweep_row(web, &web->strangers, now_ns);
    (void)pthread_mutex_unlock(&web->lock);
}
