/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_SESSION_ROUTES_H
#define VIAL_SERVE_SESSION_ROUTES_H

/* What every route that opens a session has in common. */

#include "serve/http_call.h"

/* The body: a request's fields, idle and lease. */
int session_read_start(struct call *c, struct vial_request **req,
                       struct vial_session_options *options, struct vial_error *err);

/* Answers how HELD stands. */
void session_answer(struct call *c, unsigned status, struct registered *held);

#endif
