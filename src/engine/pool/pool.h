/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_POOL_H
#define VIAL_ENGINE_POOL_POOL_H

/*
 * Vessels that were opened before they are asked for. A pool has a stock for each
 * shape of plan that was asked for; each stock has a thread that fills it. A
 * vessel is taken, used once and destroyed; nothing ever comes back.
 *
 *   pool_open -> { pool_take -> use -> pool_destroy }* -> pool_close
 *
 * A stock wants as many vessels as were asked for in its busiest moments of late,
 * twice over, but not fewer than its target while it is in use, and not more than
 * the ceiling or the pool's memory allow.
 *
 * Children of one zygote have an address layout, a stack canary and a hash seed in
 * common. In a pool that is `by_caller` a stock with a zygote is therefore one
 * caller's: of whoever first takes from it. Those that the operator wants begin as
 * nobody's, and once one is taken another is made in its place, so that the next caller
 * finds one too. A caller for whom there is no room goes without (stock.h has the
 * bounds).
 */

#include <jansson.h>

#include "engine/pool/ready.h"

#include "vial/warm.h"

struct pool;
struct stock;

int pool_open(struct vial_engine *e, const struct vial_warm_options *options,
              struct pool **out, struct vial_error *err);
void pool_close(struct pool *p); /* ends everything; NULL is allowed */

/* How many vessels of dead owners were removed when P opened, if DRIVER did it. Each is
 * told once. P may be NULL. */
unsigned pool_orphans(struct pool *p, const struct driver *driver);

struct pool_demand {
    const struct driver *driver;
    const struct plan *plan;
    const char *caller; /* NULL: this process's user */
};

/* Takes a waiting vessel that the plan can be run in, with its limits. False when
 * there is none: then it will be known that one was wanted. */
bool pool_take(struct pool *p, const struct pool_demand *wanted, struct ready *out,
               struct stock **from);
/* An interpreter of PLAN's own program is alive in the pool, so that the program need
 * not be looked for. */
bool pool_has_program(struct pool *p, const struct driver *driver,
                      const struct plan *plan);
/* Destroys what was taken FROM there, soon, in another thread. */
void pool_destroy(struct pool *p, struct stock *from, struct vessel *v);

/* At least COUNT wait for plans like PLAN from now on; -1 unless they do within
 * TIMEOUT_MS. */
int pool_want(struct pool *p, const struct driver *driver, const struct plan *plan,
              unsigned count, int64_t timeout_ms, struct vial_error *err);

unsigned pool_waiting(struct pool *p);
json_t *pool_json(struct pool *p); /* NULL without memory */

#endif
