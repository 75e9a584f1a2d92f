/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fail.h"

#define MS_NS INT64_C(1000000)
#define S_NS  INT64_C(1000000000)

/* The kernel may wake who waits in poll(2) late by a thousandth of the time asked for,
 * so that other timers come with it. Asking for less, and then again for the little
 * that is left, comes to the moment itself. */
#define EARLY 256

void loop_init(struct loop *l)
{
    memset(l, 0, sizeof *l);
}

int loop_add(struct loop *l, int fd, short events, loop_fn *call, void *context)
{
    unsigned slot = l->count;

    if (slot == LOOP_MAX)
        return -1;
    l->fds[slot] = (struct pollfd){ .fd = fd, .events = events };
    l->call[slot] = call;
    l->context[slot] = context;
    l->due_ns[slot] = LOOP_NEVER;
    l->count++;
    return (int)slot;
}

void loop_set(struct loop *l, int slot, int fd, short events)
{
    l->fds[slot] = (struct pollfd){ .fd = fd, .events = events };
}

int loop_add_timer(struct loop *l, loop_fn *call, void *context)
{
    return loop_add(l, -1, 0, call, context);
}

void loop_set_timer(struct loop *l, int slot, int64_t after_ms)
{
    int64_t now_ns = clock_now_ns();

    l->due_ns[slot] = after_ms < 0 || after_ms >= (LOOP_NEVER - now_ns) / MS_NS
                          ? LOOP_NEVER
                          : now_ns + after_ms * MS_NS;
}

void loop_set_due(struct loop *l, int slot, int64_t due_ns)
{
    l->due_ns[slot] = due_ns;
}

void loop_set_turns(struct loop *l, loop_turn_fn *before, loop_turn_fn *after,
                    void *context)
{
    l->before = before;
    l->after = after;
    l->turn_context = context;
}

void loop_stop(struct loop *l)
{
    l->stopped = true;
}

static bool has_work(const struct loop *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        if (l->fds[i].fd >= 0 || l->due_ns[i] != LOOP_NEVER)
            return true;
    }
    return false;
}

static int64_t next_due_ns(const struct loop *l)
{
    int64_t next = LOOP_NEVER;

    for (unsigned i = 0; i < l->count; i++)
        if (l->due_ns[i] < next)
            next = l->due_ns[i];
    return next;
}

static int wait(struct loop *l)
{
    int64_t due_ns = next_due_ns(l);
    int64_t left_ns = 0;
    struct timespec t;

    if (due_ns == LOOP_NEVER)
        return ppoll(l->fds, l->count, NULL, NULL);
    left_ns = due_ns - clock_now_ns();
    if (left_ns < 0)
        left_ns = 0;
    if (left_ns > MS_NS)
        left_ns -= left_ns / EARLY;
    t = (struct timespec){ .tv_sec = (time_t)(left_ns / S_NS),
                           .tv_nsec = (long)(left_ns % S_NS) };
    return ppoll(l->fds, l->count, &t, NULL);
}

/* A callback may change any slot; loop_set forgets what poll said of it. */
static int call_ready(struct loop *l, unsigned i, struct vial_error *err)
{
    short events = l->fds[i].revents;

    if (l->fds[i].fd < 0 || events == 0)
        return 0;
    if (events & POLLNVAL)
        return fail(err, VIAL_E_INTERNAL, "wait for descriptor %d: not open",
                    l->fds[i].fd);
    l->fds[i].revents = 0;
    l->call[i](l->context[i], events);
    return 0;
}

static int dispatch(struct loop *l, struct vial_error *err)
{
    bool timed = next_due_ns(l) != LOOP_NEVER;
    int64_t now_ns = timed ? clock_now_ns() : 0;

    for (unsigned i = 0; i < l->count && !l->stopped; i++) {
        if (l->due_ns[i] <= now_ns) {
            l->due_ns[i] = LOOP_NEVER;
            l->call[i](l->context[i], 0);
        } else if (call_ready(l, i, err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* A signal came: nothing is known of any descriptor. */
static int forget(struct loop *l)
{
    for (unsigned i = 0; i < l->count; i++)
        l->fds[i].revents = 0;
    return 0;
}

/* Between the two calls of the owner, whatever comes of it. */
static int wait_turn(struct loop *l, struct vial_error *err)
{
    int rc = 0;

    if (!has_work(l))
        rc = fail(err, VIAL_E_INTERNAL, "wait: no descriptor to wait for");
    else if (wait(l) < 0)
        rc = errno == EINTR ? forget(l) : fail_sys(err, "wait for descriptors");
    if (l->after)
        l->after(l->turn_context);
    return rc;
}

int loop_run(struct loop *l, struct vial_error *err)
{
    int rc = 0;

    while (rc == 0 && !l->stopped) {
        if (l->before)
            l->before(l->turn_context);
        if (!l->stopped)
            rc = wait_turn(l, err);
        if (rc == 0 && !l->stopped)
            rc = dispatch(l, err);
    }
    l->stopped = false; /* a stop ends one run; the loop may be run again */
    return rc;
}
