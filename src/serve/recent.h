/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_RECENT_H
#define VIAL_SERVE_RECENT_H

/*
 * How runs went in the last five minutes, for the page: how many ended in each slot of
 * two seconds, and the exact median and 95th percentile of how long they took. A slot
 * in which fewer than RECENT_FEW ended tells the times of those before as well, up to
 * RECENT_SPAN slots back: one slow run is no spike. Of each run a number is kept, up
 * to RECENT_RUNS; when more end in five minutes, older slots have their count and no
 * times. Several threads may call these functions.
 */

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define RECENT_SLOT_MS 2000
#define RECENT_SLOTS   150
#define RECENT_RUNS    32768u
#define RECENT_FEW     40u
#define RECENT_SPAN    15

struct recent_run {
    int64_t slot;
    float ms;
};

struct recent {
    pthread_mutex_t lock;
    struct recent_run *runs; /* a ring: the next goes to total % RECENT_RUNS */
    uint64_t total;
    struct {
        int64_t slot;
        uint32_t ended;
    } counts[RECENT_SLOTS]; /* by slot % RECENT_SLOTS */
};

int recent_init(struct recent *r);
void recent_done(struct recent *r);

/* One run that took MS has ended at NOW_MS, by a clock that never goes back. */
void recent_add(struct recent *r, int64_t now_ms, double ms);

/* {"slot_ms", "ended": [oldest … newest], "median_ms": […], "p95_ms": […],
 * "all": {"ended", "median_ms", "p95_ms"}}; a slot that tells of no run has null times.
 * The newest slot is the last whole one. NULL: no memory. */
json_t *recent_json(struct recent *r, int64_t now_ms);

#endif
