/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEP_H
#define VIAL_KEEP_H

/*
 * One vessel for many calls, made anew now and then:
 *
 *   vial_keep_open -> vial_keep_run* -> vial_keep_close
 *
 * Calls find what earlier ones left: files, and processes that went on. That is
 * what it is for, and why single-use vessels (vial_run) are better wherever the
 * calls have nothing to do with each other. A new vessel comes after MAX_CALLS calls,
 * after IDLE_MS without one, when a call needs another image, whenever a call
 * did not end by itself (time-out, memory, a lost vessel), and when calls have left
 * so many processes (half of the limit) that a later one could miss its own: nothing
 * of the old one is left then, and in the last case the result says so (`renewed`).
 * Functions may be called from several threads; calls then work side by side, and one
 * that was cancelled before it began never runs. A vessel that is given up ends with
 * the last call in it. A call whose language has a seccomp profile or a network of its
 * own, which the vessel was made without, has a vessel of its own, as with vial_run.
 */

#include "vial/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vial_keep;

/* Zero-initialise: 0 means the usual value. */
struct vial_keep_options {
    unsigned max_calls; /* usual: 50 */
    int64_t idle_ms;    /* usual: 10 min; at most 24 h */
};

struct vial_keep_report {
    char vessel_id[32]; /* "" when there is none at the moment */
    unsigned calls;     /* that it has served */
    unsigned vessels;   /* opened so far */
};

/* BASE says what the vessels are like: driver, image, limits, network, mounts. It
 * is copied. Opens nothing yet; OPTIONS may be NULL. The engine must outlive it. */
VIAL_API VIAL_MUST_CHECK int vial_keep_open(struct vial_engine *engine,
                                            const struct vial_request *base,
                                            const struct vial_keep_options *options,
                                            struct vial_keep **out,
                                            struct vial_error *err);

/* Runs REQ in the kept vessel, as vial_run would in one of its own. REQ may set
 * what is about the program: language, code, command, args, stdin, files, outputs,
 * env, cwd, time-outs, what is kept of the output; anything else is refused.
 * WATCH follows it as in vial_run, but stdin is the request's; NULL: nobody does. */
VIAL_API VIAL_MUST_CHECK int vial_keep_run(struct vial_keep *keep,
                                           const struct vial_request *req,
                                           const struct vial_watch *watch,
                                           struct vial_result **out,
                                           struct vial_error *err);

/* How it stands. */
VIAL_API void vial_keep_look(struct vial_keep *keep, struct vial_keep_report *out);

/* Ends the vessel, and gives back. No call may be under way. NULL is allowed. */
VIAL_API void vial_keep_close(struct vial_keep *keep);

#ifdef __cplusplus
}
#endif
#endif
