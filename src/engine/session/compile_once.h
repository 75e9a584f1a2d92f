/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_SESSION_COMPILE_ONCE_H
#define VIAL_ENGINE_SESSION_COMPILE_ONCE_H

/* One compile step for many runs: in a vessel of its own, as part of none of them. */

#include "engine/engine.h"

#include "vial/session.h"

/* Whether REQ's language has a compile step whose outcome a plain command can start. */
bool compile_fits(struct vial_engine *e, const struct vial_request *req);

/* *OUT: like REQ, but with what its compiler made as files, and the command that starts
 * it. NULL: it did not do well, and runs of REQ itself will say why. *CPU_MS: what it
 * took. -1: no memory. */
int compile_once(struct vial_engine *e, const struct vial_request *req,
                 const struct vial_session_options *options, struct vial_request **out,
                 double *cpu_ms, struct vial_error *err);

/* The same, with what the compiler said and how it ended in *TOLD, whose verdict is
 * `failed` when that is not known; NULL: it was not started. */
int compile_told(struct vial_engine *e, const struct vial_request *req,
                 const struct vial_session_options *options, struct vial_request **out,
                 struct vial_result **told, struct vial_error *err);

#endif
