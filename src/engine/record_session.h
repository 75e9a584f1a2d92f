/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RECORD_SESSION_H
#define VIAL_ENGINE_RECORD_SESSION_H

/* What the audit log is told of sessions: their begin and end, and the begin and end
 * of every program in them. Nothing begins that cannot be recorded. */

#include "engine/session.h"

int record_session_begin(struct vial_session *s, struct vial_error *err);
void record_session_refused(struct vial_session *s, const struct vial_error *why);
void record_session_end(struct vial_session *s);

int record_exec_begin(struct vial_exec *x, const struct strv *argv,
                      struct vial_error *err);
void record_exec_end(struct vial_exec *x);

#endif
