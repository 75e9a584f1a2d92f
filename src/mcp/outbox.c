/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "mcp/core.h"

#define MESSAGES_MAX 1024u /* a client that reads no faster misses some */

int outbox_init(struct outbox *o)
{
    *o = (struct outbox){ .messages = json_array(),
                          .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
    (void)pthread_mutex_init(&o->lock, NULL);
    if (o->messages && o->event_fd >= 0)
        return 0;
    outbox_done(o);
    return -1;
}

void outbox_done(struct outbox *o)
{
    json_decref(ptr_take(&o->messages));
    if (o->event_fd >= 0)
        (void)close(fd_take(&o->event_fd));
    (void)pthread_mutex_destroy(&o->lock);
}

void outbox_put(struct outbox *o, json_t *message)
{
    const uint64_t one = 1;

    (void)pthread_mutex_lock(&o->lock);
    if (json_array_size(o->messages) < MESSAGES_MAX) {
        (void)json_array_append_new(o->messages, message);
        (void)!write(o->event_fd, &one, sizeof one);
    } else {
        json_decref(message);
    }
    (void)pthread_mutex_unlock(&o->lock);
}

static json_t *take(struct outbox *o)
{
    json_t *taken = json_array();
    uint64_t count;

    (void)pthread_mutex_lock(&o->lock);
    if (taken && json_array_extend(taken, o->messages) == 0) {
        (void)json_array_clear(o->messages);
        (void)!read(o->event_fd, &count, sizeof count);
    }
    (void)pthread_mutex_unlock(&o->lock);
    return taken;
}

static void send_all(struct outbox *o, struct mcp_exchange *x)
{
    json_t *messages = take(o);

    for (size_t i = 0; i < json_array_size(messages); i++)
        x->send(x, json_incref(json_array_get(messages, i)));
    json_decref(messages);
}

bool outbox_pass_on(struct outbox *o, struct mcp_exchange *x, int stop_fd,
                    int64_t timeout_ms)
{
    struct pollfd p[] = { { .fd = o->event_fd, .events = POLLIN },
                          { .fd = x->cancel_fd, .events = POLLIN },
                          { .fd = stop_fd, .events = POLLIN } };
    int64_t end_ns = clock_now_ns() + timeout_ms * 1000000;
    bool stopped = false;

    while (!stopped) {
        int64_t left = (end_ns - clock_now_ns()) / 1000000;

        if (poll(p, 3, left > 0 ? (int)left : 0) == 0)
            break;
        send_all(o, x);
        stopped = p[1].revents || p[2].revents;
    }
    send_all(o, x);
    return stopped;
}
