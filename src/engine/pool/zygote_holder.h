/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_ZYGOTE_HOLDER_H
#define VIAL_ENGINE_POOL_ZYGOTE_HOLDER_H

/*
 * The zygote of a stock: started when one is needed, asked by several threads at once,
 * replaced when it fails.
 *
 *   zygote_holder_init -> { zygote_holder_have, zygote_holder_fork_into, from any
 * thread }*
 *                -> zygote_holder_close (nobody asks any more) -> zygote_holder_done
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/pool/ready.h"

/* How long what has failed is not tried again: a moment after the first time, twice as
 * long after each further one, up to some seconds. */

/* Zero-initialise: nothing has failed. */
struct backoff {
    int64_t until_ns;
    int64_t ms; /* the last one's; 0: it went well since */
};

void backoff_begin(struct backoff *p);  /* it has failed */
void backoff_forget(struct backoff *p); /* it went well */
bool backoff_is_over(const struct backoff *p);

/* One zygote; whoever lets go of it last closes it. */
struct shared_zygote {
    const struct driver *driver;
    struct zygote *zygote;
    unsigned users; /* under the holder's lock: those who ask, and the holder */
};

struct zygote_holder {
    pthread_mutex_t lock; /* never with the pool's held */
    struct shared_zygote *_Atomic shared;
    atomic_uint zygotes;  /* ever started */
    struct backoff pause; /* after a failure */
};

/* The things that are needed to start a zygote. */
struct zygote_holder_needs {
    const struct driver *driver;
    const struct plan *plan;
    struct zygote_options options;
};

void zygote_holder_init(struct zygote_holder *n);
/* Starts one unless it is there, or has failed a moment ago. */
void zygote_holder_have(struct zygote_holder *n,
                        const struct zygote_holder_needs *needs,
                        struct vial_error *err);
/* 0: an interpreter waits in R, or there is none to be had. -1: R must be closed; the
 * zygote will not be asked again. */
int zygote_holder_fork_into(struct zygote_holder *n,
                            const struct zygote_holder_needs *needs, struct ready *r,
                            struct vial_error *err);
/* None for a while. */
void zygote_holder_put_off(struct zygote_holder *n);
bool zygote_holder_is_alive(const struct zygote_holder *n);
void zygote_holder_close(
    struct shared_zygote *last); /* what was taken from it; NULL is allowed */
void zygote_holder_done(struct zygote_holder *n);

#endif
