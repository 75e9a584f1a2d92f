/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_LOOP_H
#define VIAL_BASE_LOOP_H

/*
 * A small event loop over poll(2), made for one run: a handful of descriptors,
 * borrowed, each with a callback.
 *
 *   loop_init -> loop_add* -> { loop_run, until a callback calls loop_stop }*
 *
 * It owns nothing, so there is nothing to release.
 */

#include <poll.h>
#include <stdbool.h>

#include "vial/error.h"

#define LOOP_MAX 16

struct loop;
typedef void loop_fn(void *context, short events);

struct loop {
    struct pollfd fds[LOOP_MAX];
    loop_fn *call[LOOP_MAX];
    void *context[LOOP_MAX];
    unsigned count;
    bool stopped;
};

void loop_init(struct loop *l);
/* FD -1 makes a slot that never fires. Returns the slot, or -1 when full (a bug). */
int loop_add(struct loop *l, int fd, short events, loop_fn *call, void *context);
void loop_set(struct loop *l, int slot, int fd, short events);
void loop_stop(struct loop *l);
int loop_run(struct loop *l, struct vial_error *err);

#endif
