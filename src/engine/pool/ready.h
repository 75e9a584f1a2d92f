/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_READY_H
#define VIAL_ENGINE_POOL_READY_H

/*
 * One vessel that waits: open, its guest up and told how to confine programs and,
 * where a zygote gave one, an interpreter inside that waits for code. Nothing of
 * any request has been in it.
 */

#include "engine/conversation.h"
#include "engine/engine.h"

struct ready {
    struct vessel *vessel;
    struct link *link;
    struct vessel_usage before; /* what making it has used */
    double queued_ms;           /* how long its taker had to wait for it */
    uint32_t channel;           /* where an interpreter waits (prestart_make), or 0 */
};

/* Which vessel: all of it outlives the vessel. */
struct ready_order {
    struct vial_engine *engine;
    const struct driver *driver;
    struct native_shared *shared; /* NULL: the driver has none */
    const struct plan *plan;
    bool forks; /* ready_fork_into comes next */
};

/* Nothing is left behind by a failure. */
int ready_open(const struct ready_order *order, struct ready *out,
               struct vial_error *err);
/* Puts an interpreter of ZYGOTE's into it. After a failure it must be closed. */
int ready_fork_into(struct ready *r, struct zygote *zygote, struct vial_error *err);
/* The talk with a guest until its vessel is ready. GUEST's events, whose context is P,
 * set `done` when what was waited for has come, or `rc` with `err` filled. Frames that
 * were queued on R's link go first. */
struct preparation {
    struct conversation talk;
    struct vial_error *err; /* or NULL */
    int rc;                 /* the first failure stays */
    bool done;
};
int ready_prepare(struct ready *r, struct preparation *p,
                  const struct link_events *guest, struct vial_error *err);
/* Nothing more is done to it: what it has used so far is not its taker's. */
void ready_settle(struct ready *r);
void ready_close(struct ready *r);

#endif
