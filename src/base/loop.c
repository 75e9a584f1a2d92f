/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <string.h>

#include "base/fail.h"

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
    l->count++;
    return (int)slot;
}

void loop_set(struct loop *l, int slot, int fd, short events)
{
    l->fds[slot] = (struct pollfd){ .fd = fd, .events = events };
}

void loop_stop(struct loop *l)
{
    l->stopped = true;
}

static bool has_work(const struct loop *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        if (l->fds[i].fd >= 0)
            return true;
    }
    return false;
}

/* A callback may change any slot; loop_set forgets what poll said of it. */
static int dispatch(struct loop *l, struct vial_error *err)
{
    for (unsigned i = 0; i < l->count && !l->stopped; i++) {
        short events = l->fds[i].revents;

        if (l->fds[i].fd < 0 || events == 0)
            continue;
        if (events & POLLNVAL)
            return fail(err, VIAL_E_INTERNAL, "wait for descriptor %d: not open",
                        l->fds[i].fd);
        l->fds[i].revents = 0;
        l->call[i](l->context[i], events);
    }
    return 0;
}

int loop_run(struct loop *l, struct vial_error *err)
{
    while (!l->stopped) {
        if (!has_work(l))
            return fail(err, VIAL_E_INTERNAL, "wait: no descriptor to wait for");
        if (poll(l->fds, l->count, -1) < 0) {
            if (errno == EINTR)
                continue;
            return fail_sys(err, "wait for descriptors");
        }
        if (dispatch(l, err) < 0)
            return -1;
    }
    l->stopped = false; /* a stop ends one run; the loop may be run again */
    return 0;
}
