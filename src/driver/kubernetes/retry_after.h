/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_KUBERNETES_RETRY_AFTER_H
#define VIAL_DRIVER_KUBERNETES_RETRY_AFTER_H

/*
 * How long to wait before an API server is asked again that has refused for now. One
 * that says itself how long (429 with Retry-After: its priority levels are full) is
 * obeyed, as long as that is bearable; else each wait is twice the last. Pure.
 */

#include <stdint.h>

struct retry_after {
    unsigned tries;  /* after refusals without a time */
    int64_t wait_ms; /* before the next of these */
    int64_t left_ms; /* of all that may be waited */
    int64_t told_ms; /* by the last answer; 0: nothing */
};

/* A line of an answer's head. */
void retry_after_hear(struct retry_after *p, const char *line);

/* How long to wait now; -1: it is enough. */
int64_t retry_after_next(struct retry_after *p);

#endif
