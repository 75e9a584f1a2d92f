/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_E2B_ASK_SERVICE_H
#define VIAL_DRIVER_E2B_ASK_SERVICE_H

/* Makes calls of an E2B service, and tells its refusals apart, each with what to do. */

#include <jansson.h>

#include "driver/e2b/calls.h"

/* How a call is made. */
struct e2b_way {
    const struct e2b_server *to;
    int64_t timeout_ms; /* 0: the usual */
    int cancel_fd;      /* readable: give up; -1: none */
    unsigned tries;     /* at most; 0: the usual */
};

/* *OUT is the answer's JSON, null when it has none; OUT may be NULL. CALL may have
 * failed for want of memory. */
int e2b_do(const struct e2b_call *call, const struct e2b_way *way, json_t **out,
           struct vial_error *err);

/* The answer's bytes go to TAKE as they come, until it ends, or is quiet for too long.
 */
int e2b_stream(const struct e2b_call *call, const struct e2b_way *way, http_take *take,
               void *context, struct vial_error *err);

/* Ends a sandbox, in seconds or not at all. 1: there is none of that id. */
int e2b_end(const struct e2b_endpoint *e, const char *id, int cancel_fd,
            struct vial_error *err);

/* sandboxes.c: those that vial made with this key. */

struct vial_vessels;

int e2b_list(const struct e2b_endpoint *e, struct vial_vessels *list,
             struct vial_error *err);

/* Ends those whose owner, on this host, has died; *REMOVED is how many. */
int e2b_sweep(const struct e2b_endpoint *e, int cancel_fd, unsigned *removed,
              struct vial_error *err);

#endif
