/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_NURSERY_H
#define VIAL_ENGINE_NURSERY_H

/*
 * The zygote of a stock: started when one is needed, asked by several threads at once,
 * replaced when it fails.
 *
 *   nursery_init -> { nursery_have, nursery_hatch, from any thread }*
 *                -> nursery_close (nobody asks any more) -> nursery_done
 */

#include <pthread.h>
#include <stdatomic.h>

#include "engine/pause.h"
#include "engine/ready.h"

/* One zygote; whoever lets go of it last closes it. */
struct nurse {
    const struct driver *driver;
    struct zygote *zygote;
    unsigned users; /* under the nursery's lock: those who ask, and the nursery */
};

struct nursery {
    pthread_mutex_t lock; /* never with the pool's held */
    struct nurse *_Atomic nurse;
    atomic_uint zygotes; /* ever started */
    struct pause pause;  /* after a failure */
};

/* What is needed to start one. */
struct nursery_needs {
    const struct driver *driver;
    const struct plan *plan;
    struct zygote_options options;
};

void nursery_init(struct nursery *n);
/* Starts one unless it is there, or has failed a moment ago. */
void nursery_have(struct nursery *n, const struct nursery_needs *needs,
                  struct vial_error *err);
/* 0: an interpreter waits in R, or there is none to be had. -1: R must be closed; the
 * zygote will not be asked again. */
int nursery_hatch(struct nursery *n, const struct nursery_needs *needs, struct ready *r,
                  struct vial_error *err);
/* None for a while. */
void nursery_put_off(struct nursery *n);
bool nursery_is_alive(const struct nursery *n);
void nursery_close(struct nurse *last); /* what was taken from it; NULL is allowed */
void nursery_done(struct nursery *n);

#endif
