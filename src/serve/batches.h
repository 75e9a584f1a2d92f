/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_BATCHES_H
#define VIAL_SERVE_BATCHES_H

/*
 * Runs that their caller said belong together (?batch=NAME), summed up for the page:
 * how many ended, with which verdicts, how fast. BATCHES_MOST are remembered; the one
 * that was heard of longest ago goes first. Several threads may call these functions.
 */

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "vial/result.h"

#define BATCHES_MOST    32u
#define BATCHES_OF_ONE  8u  /* caller: further names push its own out, not others' */
#define BATCHES_NAME    65u /* bytes of a name, with its end */
#define BATCHES_RATE_MS 10000

struct batches_one {
    char caller[96];
    char name[BATCHES_NAME];
    int64_t first_ms, last_ms;
    int64_t second[BATCHES_RATE_MS / 1000]; /* which second each count is of */
    uint32_t ended[BATCHES_RATE_MS / 1000]; /* by second, modulo how many there are */
    uint64_t verdicts[VIAL_FAILED + 1];
};

struct batches {
    pthread_mutex_t lock;
    struct batches_one all[BATCHES_MOST]; /* last_ms 0: free */
};

int batches_init(struct batches *b);
void batches_done(struct batches *b);

/* Letters, digits, '.', '_' and '-'. */
bool batches_is_name(const char *name);

/* A run of CALLER's batch NAME has ended. */
void batches_add(struct batches *b, const char *caller, const char *name,
                 int64_t now_ms, enum vial_verdict verdict);

/* [{"name", "caller", "runs", "verdicts", "per_second", "seconds", "active"}], newest
 * first. CALLER NULL: of all. NULL: no memory. */
json_t *batches_json(struct batches *b, const char *caller, int64_t now_ms);

#endif
