/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_SESSION_CONTEXT_H
#define VIAL_ENGINE_SESSION_CONTEXT_H

/* An interpreter that remembers, and the frames it sends. */

#include "base/json.h"
#include "engine/run/life.h"
#include "engine/session/session.h"

#include "vial/context.h"

#define CONTEXT_PIECE   (64u << 10) /* read at once */
#define CONTEXT_WAIT_MS 30000       /* for it to become ready, and to take its code */

struct harness;

struct vial_context {
    struct vial_session *session;
    const struct language *language; /* borrowed from the settings */
    char *harness;
    const struct harness *how; /* what runs it */
    struct vial_exec *exec;
    uint64_t at; /* how far its stdout has been read */
    struct str bytes;
    size_t frame; /* bytes of the last one */
    uint64_t cell;
    bool busy; /* under the session's lock */
    /* LIFE_RUN: the interpreter is up; LIFE_ENDED: it has gone, or is not to be trusted
     * any more. It needs no other stage. */
    enum life_stage stage;
};

/* 1 and a frame, 0 when UNTIL_NS has come, -1. */
int context_next(struct vial_context *c, int64_t until_ns, json_t **out,
                 struct vial_error *err);
bool context_is_kind(const json_t *frame, const char *kind);

/* It is not to be trusted any more. */
int context_nonsense(struct vial_context *c, const char *why, struct vial_error *err);

#endif
