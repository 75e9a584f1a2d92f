/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_TURN_H
#define VIAL_WIRES_TURN_H

/*
 * The one way by which all wires run a program: it waits in line for its turn instead
 * of being refused, is compiled once for all who send it, and runs in a vessel of its
 * own.
 */

#include "serve/job.h"
#include "serve/stage.h"

struct program {
    struct call *call;
    struct vial_request *req; /* the whole of it; program_run adds to it */
    /* Limits of the compile step, where they are not the run's; 0: they are. */
    struct {
        int64_t timeout_ms, cpu_ms, memory_bytes;
    } compile;
    bool in_order;       /* both streams are wanted together as well */
    int64_t patience_ms; /* how long its client waits for the turn of each of its steps;
                            0: as long as the settings say */
    int cancel_fd;       /* as in struct job */
};

struct outcome {
    struct stage compile; /* of a compiled language */
    struct stage run;     /* not there if that failed */
};

/* Runs it. -1: it was never started, and ERR says why: it is at fault itself, or did
 * not have its turn in time (VIAL-BUSY, VIAL-RATE). */
int program_run(struct program *p, struct outcome *out, struct vial_error *err);

/* Its compile step alone, if it has one: TOLD is how that ended, and *MADE the request
 * that runs what came of it; NULL: nothing did. */
int program_compile(struct program *p, struct vial_request **made, struct stage *told,
                    struct vial_error *err);

void outcome_done(struct outcome *o);
#define auto_outcome __attribute__((cleanup(outcome_done)))

/* A turn for something else than a run; patient, as program_run is. */
int program_turn(struct call *c, int cancel_fd, struct gate_pass *pass,
                 struct vial_error *err);

/* Whether ERR says that it did not have its turn. */
bool program_is_late(const struct vial_error *err);

/* Limits and the like, in their own units (ms, bytes, a count); what is out of range is
 * refused. */
int program_limit(struct vial_request *req, enum field_id id, int64_t value,
                  struct vial_error *err);
/* WANTED, or as much as the policy allows; for what no client has asked for. */
int64_t program_most(const struct call *c, enum field_id id, int64_t wanted);
/* A file of LEN bytes; NAME is below the working directory, or begins with "/work/". */
int program_file(struct vial_request *req, const char *name, const char *data,
                 size_t len, unsigned mode, struct vial_error *err);
/* NAME as such a path; NULL: it lies elsewhere. */
const char *program_path(const char *name);
/* How much a program may print on these wires. */
int64_t program_output_most(const struct call *c);

#endif
