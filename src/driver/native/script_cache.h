/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_SCRIPT_CACHE_H
#define VIAL_DRIVER_NATIVE_SCRIPT_CACHE_H

/*
 * Scripts that are walked again. What a vessel's child does follows from its plan and
 * from what the host's tree looks like; of the same plan, and within a second, it is
 * the same but for a few descriptors' numbers. A vessel that waits was made of an older
 * look at the host than that.
 *
 *   script_cache_take -> script_rebind, a child walks it up to its exec ->
 * script_cache_give
 */

#include <pthread.h>

#include "driver/native/script.h"
#include "model/plan.h"

#define SCRIPT_CACHE_MAX 4 /* more are not under way at once */

struct script_cache {
    pthread_mutex_t lock;
    struct script *kept[SCRIPT_CACHE_MAX];
    unsigned count;
};

void script_cache_open(struct script_cache *s);
void script_cache_close(struct script_cache *s);

/* One that was written for PLAN, or NULL. */
struct script *script_cache_take(struct script_cache *s, const struct plan *plan);
/* Nobody walks SCRIPT any more, and PLAN has no mounts or root of its own. */
void script_cache_give(struct script_cache *s, struct script *script,
                       const struct plan *plan);

#endif
