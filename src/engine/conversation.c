/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/conversation.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/sys.h"

#define BUFFER    (16u << 10)  /* at first */
#define FLOOD     (256u << 10) /* once a read has filled it */
#define DRAIN_MAX (4u << 20)   /* bytes taken after the end; a socket holds less */

static const struct link_events nobody;

void conversation_grow(struct conversation *c, size_t got)
{
    uint8_t *larger = NULL;

    if (got < c->buffer_size || c->buffer_size >= FLOOD)
        return;
    larger = malloc(FLOOD);
    if (!larger)
        return; /* small steps will do */
    free(c->buffer);
    c->buffer = larger;
    c->buffer_size = FLOOD;
}

bool conversation_flush(struct conversation *c)
{
    struct vial_error err = { 0 };
    const uint8_t *data;
    size_t len;

    for (;;) {
        ssize_t n;

        if (c->owner->more)
            c->owner->more(c->context);
        data = link_pending(c->link, &len);
        if (!data)
            break;
        n = send(c->vessel->stream_fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            break; /* full, or interrupted; or broken, which reading will tell */
        link_sent(c->link, (size_t)n);
    }
    if (!link_out_of_memory(c->link))
        return data;
    (void)fail_memory(&err);
    c->owner->lost(c->context, &err);
    return true;
}

bool conversation_is_quiet(const struct vessel *vessel)
{
    struct pollfd fds[2] = { { .fd = vessel->stream_fd, .events = POLLIN },
                             { .fd = vessel->death_fd, .events = POLLIN } };

    return poll(fds, 2, 0) == 0;
}

int conversation_send_fd(const struct vessel *vessel, struct link *link, int fd,
                         struct vial_error *err)
{
    size_t len;
    const void *data = link_pending(link, &len);
    ssize_t n =
        sys_send_fds(vessel->stream_fd, (struct iovec){ (void *)(uintptr_t)data, len },
                     &fd, 1, MSG_DONTWAIT);

    if (n != (ssize_t)len)
        return fail_sys_rc(err, n < 0 ? (int)n : -EAGAIN,
                           "hand the interpreter to the guest");
    link_sent(link, (size_t)n);
    return 0;
}

/* One read. Bytes taken, 0 when there are none now, -1 at the end. */
static ssize_t take(struct conversation *c)
{
    struct vial_error err = { 0 };
    ssize_t n = recv(c->vessel->stream_fd, c->buffer, c->buffer_size, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    if (link_feed(c->link, c->buffer, (size_t)n, &err) == 0) {
        conversation_grow(c, (size_t)n);
        return n;
    }
    c->owner->lost(c->context, &err);
    return -1;
}

void conversation_drain(struct conversation *c)
{
    size_t total = 0;
    ssize_t n;

    while (c->link && c->buffer && total < DRAIN_MAX && (n = take(c)) > 0)
        total += (size_t)n;
}

static void on_stream(void *context, short events)
{
    struct conversation *c = context;

    if ((events & (POLLIN | POLLHUP | POLLERR)) && take(c) < 0)
        c->owner->lost(c->context, NULL);
}

static void on_death(void *context, short events)
{
    struct conversation *c = context;

    (void)events;
    conversation_drain(c);
    c->owner->lost(c->context, NULL);
}

/* Reading is what re-arms it, whichever kind it is: an eventfd, an inotify
 * descriptor or a cgroup file. */
static void on_event(void *context, short events)
{
    struct conversation *c = context;
    int fd = c->vessel->event_fd;
    char bytes[512];

    if (read(fd, bytes, sizeof bytes) <= 0 && (events & POLLERR) == 0)
        loop_set(&c->loop, c->event_slot, -1, 0);
    (void)lseek(fd, 0, SEEK_SET);
    if (c->owner->limit)
        c->owner->limit(c->context);
}

static void on_due(void *context, short events)
{
    struct conversation *c = context;

    (void)events;
    if (c->owner->due)
        c->owner->due(c->context);
}

static void before_wait(void *context)
{
    struct conversation *c = context;
    bool left = false;

    if (c->owner->turn)
        c->owner->turn(c->context);
    if (!c->loop.stopped)
        left = conversation_flush(c);
    loop_set(&c->loop, c->stream_slot, c->vessel->stream_fd,
             left ? POLLIN | POLLOUT : POLLIN);
    if (!c->loop.stopped && c->owner->unlock)
        c->owner->unlock(c->context);
}

static void after_wait(void *context)
{
    struct conversation *c = context;

    if (c->owner->lock)
        c->owner->lock(c->context);
}

static int greet(struct conversation *c, struct vial_error *err)
{
    if (!c->vessel->jailed)
        return link_jail(c->link, &c->vessel->jail, err);
    link_jailed(c->link);
    return 0;
}

int conversation_begin(struct conversation *c, const struct vessel *vessel,
                       struct link *link, const struct conversation_owner *owner,
                       void *context, struct vial_error *err)
{
    *c = (struct conversation){
        .vessel = vessel,
        .link = link ? link : link_new(&owner->guest, context),
        .buffer = malloc(BUFFER),
        .buffer_size = BUFFER,
        .owner = owner,
        .context = context,
    };
    loop_init(&c->loop);
    loop_set_turns(&c->loop, before_wait, after_wait, c);
    c->stream_slot = loop_add(&c->loop, vessel->stream_fd, POLLIN, on_stream, c);
    c->event_slot = loop_add(&c->loop, -1, 0, on_event, c);
    (void)loop_add(&c->loop, vessel->death_fd, POLLIN, on_death, c);
    c->due_slot = loop_add_timer(&c->loop, on_due, c);
    if (!c->buffer || !c->link)
        return fail_memory(err);
    if (!link)
        return greet(c, err);
    link_rebind(link, &owner->guest, context);
    return 0;
}

struct link *conversation_leave(struct conversation *c)
{
    struct link *link = c->link;

    if (link)
        link_rebind(link, &nobody, NULL);
    free(c->buffer);
    *c = (struct conversation){ 0 };
    return link;
}

void conversation_end(struct conversation *c)
{
    link_free(conversation_leave(c));
}

void conversation_stop(struct conversation *c)
{
    loop_stop(&c->loop);
}

void conversation_due(struct conversation *c, int64_t due_ns)
{
    loop_set_due(&c->loop, c->due_slot, due_ns);
}

bool conversation_watch_limits(struct conversation *c)
{
    loop_set(&c->loop, c->event_slot, c->vessel->event_fd, POLLIN | POLLPRI);
    return c->vessel->event_fd >= 0;
}

int conversation_run(struct conversation *c, struct vial_error *err)
{
    return loop_run(&c->loop, err);
}
