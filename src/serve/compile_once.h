/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_COMPILE_ONCE_H
#define VIAL_SERVE_COMPILE_ONCE_H

/* A request in a compiled language turned into one that runs what the compiler made,
 * so that many inputs need one compilation. */

#include "serve/http_call.h"

/* BASE: a request as JSON. *OUT is the request of the compiled program, the caller's;
 * or NULL when BASE has no compile step, the compiler refuses it, or plain commands
 * are not allowed: then each run has to compile for itself. -1: it never had its turn
 * at the gate. */
int compile_once(struct call *c, json_t *base, json_t **out, struct vial_error *err);

#endif
