/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_QUEUE_H
#define VIAL_ENGINE_POOL_QUEUE_H

/*
 * Callers who asked for a vessel and found none wait here, first come first served.
 * Each sleeps by itself and is handed a vessel as it is made. All of it is under the
 * pool's lock.
 */

#include <pthread.h>

#include "engine/pool/ready.h"

struct waiter {
    struct waiter *next;
    pthread_cond_t called;
    struct ready *out;
    bool served, dismissed;
};

/* Zero-initialise. */
struct queue {
    struct waiter *first, *last;
    unsigned count;
};

/* Sleeps for at most MS; true when *OUT is a vessel. */
bool queue_wait(struct queue *q, pthread_mutex_t *lock, int64_t ms, struct ready *out);
/* Hands R to the one who waits longest; false when there is nobody. */
bool queue_serve(struct queue *q, const struct ready *r);
/* All go without. */
void queue_dismiss(struct queue *q);

#endif
