/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_SCRIPTS_H
#define VIAL_DRIVER_NATIVE_SCRIPTS_H

/*
 * Scripts that are walked again. What a vessel's child does follows from its plan and
 * from what the host's tree looks like; of the same plan, and within a second, it is
 * the same but for a few descriptors' numbers. A vessel that waits was made of an older
 * look at the host than that.
 *
 *   scripts_take -> script_rebind, a child walks it up to its exec -> scripts_give
 */

#include <pthread.h>

#include "driver/native/script.h"
#include "model/plan.h"

#define SCRIPTS_MAX 4 /* more are not under way at once */

struct scripts {
    pthread_mutex_t lock;
    struct script *kept[SCRIPTS_MAX];
    unsigned count;
};

void scripts_open(struct scripts *s);
void scripts_close(struct scripts *s);

/* One that was written for PLAN, or NULL. */
struct script *scripts_take(struct scripts *s, const struct plan *plan);
/* Nobody walks SCRIPT any more, and PLAN has no mounts or root of its own. */
void scripts_give(struct scripts *s, struct script *script, const struct plan *plan);

#endif
