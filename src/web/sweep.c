/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "web/server.h"

#define NS_PER_S INT64_C(1000000000)
#define BYTES_S  (16u << 10) /* a body comes in at least as fast as this */

void sweep_add(struct web *web, struct connection *c, int fd)
{
    (void)pthread_mutex_lock(&web->lock);
    *c = (struct connection){ .fd = fd, .since_ns = clock_now_ns() };
    c->next = web->connections;
    if (c->next)
        c->next->previous = c;
    web->connections = c;
    if (web->connection_count++ == 0)
        (void)pthread_cond_broadcast(&web->changed);
    (void)pthread_mutex_unlock(&web->lock);
}

void sweep_remove(struct web *web, struct connection *c)
{
    (void)pthread_mutex_lock(&web->lock);
    if (c->next)
        c->next->previous = c->previous;
    if (c->previous)
        c->previous->next = c->next;
    else
        web->connections = c->next;
    web->connection_count--;
    (void)pthread_cond_broadcast(&web->changed);
    (void)pthread_mutex_unlock(&web->lock);
}

void sweep_phase(struct web *web, struct connection *c, enum phase phase)
{
    (void)pthread_mutex_lock(&web->lock);
    c->phase = phase;
    c->since_ns = clock_now_ns();
    c->read = 0;
    (void)pthread_mutex_unlock(&web->lock);
}

/* libmicrohttpd's own time-out starts anew with each byte, so that one byte now
 * and then would hold a connection for ever. */
static bool is_late(const struct web *web, const struct connection *c, int64_t now_ns)
{
    int64_t may_s = web->options.idle_s;

    if (c->phase == PHASE_BUSY)
        return false;
    if (c->phase == PHASE_READING)
        may_s = (int64_t)web->options.slow_s + (int64_t)(c->read / BYTES_S);
    return now_ns - c->since_ns > may_s * NS_PER_S;
}

/* With the lock held: for a second, or as long as there is nobody. */
static void rest(struct web *web)
{
    struct timespec until;

    if (web->connection_count == 0) {
        (void)pthread_cond_wait(&web->changed, &web->lock);
        return;
    }
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    while (!web->ending &&
           pthread_cond_timedwait(&web->changed, &web->lock, &until) == 0)
        ;
}

void *sweep_thread(void *context)
{
    struct web *web = context;

    (void)pthread_mutex_lock(&web->lock);
    while (!web->ending) {
        int64_t now_ns = clock_now_ns();

        /* The loop sees an end of file, and closes it. */
        for (struct connection *c = web->connections; c; c = c->next)
            if (is_late(web, c, now_ns))
                (void)shutdown(c->fd, SHUT_RDWR);
        rest(web);
    }
    (void)pthread_mutex_unlock(&web->lock);
    return NULL;
}
