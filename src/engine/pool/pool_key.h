/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_POOL_KEY_H
#define VIAL_ENGINE_POOL_POOL_KEY_H

/*
 * A pool key tells how a plan's vessel must be made: the part of a plan that cannot be
 * changed once its vessel is open. Two plans of one key can use each other's vessels,
 * as long as the limits fit.
 */

#include "driver/driver.h"

/* True when a vessel for PLAN can be opened before PLAN is known in full. */
bool pool_can_wait(const struct driver *driver, const struct plan *plan);

/* Where somebody else keeps the vessels, and is told for how long, one waits for half
 * of this at most, and is used for what takes the other half at most. */
#define POOL_STAY_MS (INT64_C(2) * 60 * 60 * 1000)

/* malloc'ed; NULL without memory. */
char *pool_key(const struct driver *driver, const struct plan *plan);

/* Whether a vessel that was opened with limits OPEN can be given to PLAN: with
 * those that only a vessel's opening sets the same, and the others not higher. */
bool pool_fits(const struct limits *open, const struct plan *plan);
/* The limits must be lowered first. */
bool pool_needs_limits(const struct limits *open, const struct plan *plan);

/* An interpreter can wait in the vessel for PLAN's code. */
bool pool_can_fork(const struct driver *driver, const struct plan *plan);
/* One can be started there, ahead of its program. */
bool pool_can_prestart(const struct driver *driver, const struct plan *plan);
/* The one that waits does not differ from one started with PLAN's environment and
 * files. */
bool pool_may_use_forked(const struct plan *plan);

/* PLAN without what belongs to one request. */
int pool_template(const struct plan *plan, struct plan **out, struct vial_error *err);

#endif
