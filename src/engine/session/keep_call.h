/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_SESSION_KEEP_CALL_H
#define VIAL_ENGINE_SESSION_KEEP_CALL_H

/* One call in a vessel that is kept, while it happens: files in, the steps of its
 * program, streams and files out. */

#include "engine/run/life.h"
#include "engine/session/file_bytes.h"
#include "engine/session/session.h"

#define LIGHT_FILES 8

struct kept_call {
    struct vial_session *session;       /* the vessel's, borrowed */
    struct plan *plan;                  /* borrowed */
    const struct vial_watch *watch;     /* never NULL */
    uint64_t told[2];                   /* how much of each stream it has seen */
    struct files_way ways[LIGHT_FILES]; /* of files that go with the program: … */
    size_t queued;                      /* … so many */
    bool steps;                         /* the first has begun */
    enum life_stage stage;              /* which was passed last; LIFE_BEGIN: none */
    bool compile_only;                  /* its life ends behind the compiler */
    struct vial_exec *exec;
    struct output kept[2]; /* of its streams */
    struct vial_exec_status status;
    bool cancelled;
    uint32_t alive; /* processes in the vessel that are not its own, when it ended */
};

/* Refuses what is the vessel's and not a call's. */
int kept_call_check(const struct vial_request *req, struct vial_error *err);

/* An empty result, with what PLAN (or NULL) says; NULL without memory. */
struct vial_result *kept_call_result(const struct plan *plan);

/* 0 with R filled, whatever became of the program. */
int kept_call_run(struct kept_call *c, struct vial_result *r, struct vial_error *err);

#endif
