/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_LOOP_H
#define VIAL_BASE_LOOP_H

/*
 * A small event loop over poll(2), made for one run: a handful of descriptors,
 * borrowed, and moments, each with a callback. When several are due, the slot that
 * was added first is called first.
 *
 *   loop_init -> loop_add* -> { loop_run, until a callback calls loop_stop }*
 *
 * It owns nothing, so there is nothing to release.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "vial/error.h"

#define LOOP_MAX   16
#define LOOP_NEVER INT64_MAX

struct loop;
typedef void loop_fn(void *context, short events);
typedef void loop_turn_fn(void *context);

struct loop {
    struct pollfd fds[LOOP_MAX];
    loop_fn *call[LOOP_MAX];
    void *context[LOOP_MAX];
    int64_t due_ns[LOOP_MAX];     /* of a timer, or LOOP_NEVER */
    loop_turn_fn *before, *after; /* each wait; or NULL */
    void *turn_context;
    unsigned count;
    bool stopped;
};

void loop_init(struct loop *l);
/* FD -1 makes a slot that never fires. Returns the slot, or -1 when full (a bug). */
int loop_add(struct loop *l, int fd, short events, loop_fn *call, void *context);
void loop_set(struct loop *l, int slot, int fd, short events);
/* A slot that is called once, never early, when its moment has come; it has none yet.
 * Returns as loop_add. */
int loop_add_timer(struct loop *l, loop_fn *call, void *context);
/* AFTER_MS from now; < 0: never. What was set before is forgotten. */
void loop_set_timer(struct loop *l, int slot, int64_t after_ms);
/* The same, at that moment; LOOP_NEVER: never. */
void loop_set_due(struct loop *l, int slot, int64_t due_ns);
/* BEFORE is called ahead of each wait, and may stop the loop, which then does not wait;
 * AFTER is called behind each wait, ahead of what is due. */
void loop_set_turns(struct loop *l, loop_turn_fn *before, loop_turn_fn *after,
                    void *context);
void loop_stop(struct loop *l);
int loop_run(struct loop *l, struct vial_error *err);

#endif
