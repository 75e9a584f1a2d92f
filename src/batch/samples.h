/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_SAMPLES_H
#define VIAL_BATCH_SAMPLES_H

/* How many rows each task had and how many of them passed, of which pass@k is made. A
 * row is a word in a file without a name, so that a batch of any length needs no more
 * memory than a short one. */

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct samples {
    FILE *file;
    size_t count;
    bool broken; /* the file has not all of them: nothing can be said */
};

/* -1: errno. */
int samples_open(struct samples *s);
void samples_close(struct samples *s);
/* ID is a text or a number: the task's. */
void samples_add(struct samples *s, const json_t *id, bool passed);
/* {"pass@1": 0.5, …} for each k that every task has samples enough for. *TASKS is how
 * many tasks there are, and how many samples they have: {"count", "fewest", "most"}. */
json_t *samples_rates(struct samples *s, json_t **tasks);

#endif
