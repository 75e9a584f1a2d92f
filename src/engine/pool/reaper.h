/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_REAPER_H
#define VIAL_ENGINE_POOL_REAPER_H

/*
 * Destroys vessels off the path of whoever used them. It cannot pile up: with
 * REAPER_MAX waiting, the next is destroyed by the one who brings it.
 *
 *   reaper_start -> reaper_give* -> reaper_stop: all are destroyed
 */

#include <pthread.h>

#include "driver/driver.h"

#define REAPER_MAX 32

struct stock;

struct reaper {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct {
        struct vessel *vessel;
        struct stock *from;
    } waiting[REAPER_MAX];
    unsigned count;
    bool stopping, started;
};

int reaper_start(struct reaper *r, struct vial_error *err);
/* Takes V, which was killed; FROM is told when that is seen, and has one user less when
 * it is destroyed. */
void reaper_give(struct reaper *r, struct vessel *v, struct stock *from);
void reaper_stop(struct reaper *r);

#endif
