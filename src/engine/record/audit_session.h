/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RECORD_AUDIT_SESSION_H
#define VIAL_ENGINE_RECORD_AUDIT_SESSION_H

/* The audit log is told of sessions: their begin and end, the begin and end of every
 * program in them, and of every cell that such a program, an interpreter that
 * remembers, is given. Nothing begins that cannot be recorded. */

#include "engine/session/session.h"

#include "vial/workspace.h"

int record_session_begin(struct vial_session *s, struct vial_error *err);
void record_session_refused(struct vial_session *s, const struct vial_error *why);
void record_session_end(struct vial_session *s);

int record_exec_begin(struct vial_exec *x, const struct strv *argv,
                      struct vial_error *err);
void record_exec_end(struct vial_exec *x);

/* A piece of code for an interpreter. All is borrowed. */
struct recorded_cell {
    struct vial_exec *exec; /* the interpreter */
    uint64_t number;        /* among its cells */
    const char *language, *code;
    size_t len;
    const char *correlation; /* or NULL */
};

/* How a cell ended; zero-initialise. */
struct cell_end {
    const char *outcome; /* "ok", "error", "interrupted", "timeout", or "failed" */
    double duration_ms;
    size_t out_bytes, err_bytes;    /* of streams, as far as they were kept */
    const struct vial_error *error; /* or NULL */
};

/* A layer was copied into the host's tree, or was not. */
int record_commit_begin(struct vial_session *s, struct vial_error *err);
void record_commit_end(struct vial_session *s, const struct vial_commit_report *done,
                       const struct vial_error *why);

int record_cell_begin(const struct recorded_cell *cell, struct vial_error *err);
void record_cell_end(const struct recorded_cell *cell, const struct cell_end *end);

#endif
