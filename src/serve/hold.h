/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_HOLD_H
#define VIAL_SERVE_HOLD_H

/* The session and the program that a path names, held while a handler uses them. */

#include "serve/http_call.h"

struct hold {
    struct serve *serve;
    struct registered *session; /* or NULL */
    struct vial_exec *exec;     /* or NULL */
    unsigned number;
};

/* The session of the first parameter. */
int hold_session(struct call *c, struct hold *out, struct vial_error *err);
/* Also the program of the second. */
int hold_exec(struct call *c, struct hold *out, struct vial_error *err);
void hold_done(struct hold *h);

/* A program of a session's counts for its caller's quotas, until it has ended. */
int hold_start(struct call *c, struct vial_error *err);
void hold_ended(void *caller);
#define auto_hold __attribute__((cleanup(hold_done)))

#endif
