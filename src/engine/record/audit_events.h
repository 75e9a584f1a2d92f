/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RECORD_AUDIT_EVENTS_H
#define VIAL_ENGINE_RECORD_AUDIT_EVENTS_H

/*
 * The audit log is told of a run: a record "begin" before anything is opened, and a
 * record "run" with its end. A refusal has only the latter. It is told of sessions:
 * their begin and end, the begin and end of every program in them, and of every cell
 * that such a program, an interpreter that remembers, is given. Nothing begins that
 * cannot be recorded. All text that a caller gave goes through audit_redact.
 */

#include "engine/run/run.h"
#include "engine/session/session.h"

#include "vial/workspace.h"

/* Opens the log that the settings name, or PATH; neither: none. If that fails, the
 * engine can do all but run. */
void record_open(struct vial_engine *e, const char *path);

/* 0 without a log. A run that cannot be recorded is refused. */
int record_begin(struct run *r, const struct vial_request *req, struct vial_error *err);

/* RESULT is told if the record could not be written. */
void record_end(struct run *r, const struct vial_request *req,
                struct vial_result *result);
/* The same without what its programs were refused, for a call in a kept vessel: there
 * each program has records of its own. */
void record_result(struct run *r, const struct vial_request *req,
                   struct vial_result *result);

/* That a program tried a network where it has none, COUNT times, as the vessel says.
 * WHO, an object, says whose it was and is taken. */
void record_refused(struct vial_engine *e, json_t *who, uint64_t count);

/* Records that what dead owners left was removed: COUNT of DRIVER's vessels; or why it
 * could not be. */
void record_cleanup(struct vial_engine *e, const char *driver, unsigned count,
                    const struct vial_error *why);

/* Adds what a plan asks for to a record. */
void record_add_plan(const struct plan *plan, json_t *into);
/* Hash and length of a program's text, and the text itself where the settings say so.
 */
void record_add_code(const struct vial_engine *e, const char *code, size_t len,
                     json_t *into);
/* The entries of LIST, redacted; as many as fit. */
json_t *record_list(const struct strv *list);

/* A record of something else: a session's begin and end, a program in it. EVENT
 * is static; DETAIL, an object, is taken. */
int record_event(struct vial_engine *e, const char *event, json_t *detail,
                 struct vial_error *err);

int record_session_begin(struct vial_session *s, struct vial_error *err);
/* Something that was done with a session; MORE, an object, is taken. */
int record_session_event(struct vial_session *s, const char *event, json_t *more,
                         struct vial_error *err);
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
