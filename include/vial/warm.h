/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WARM_H
#define VIAL_WARM_H

/*
 * Vessels opened before they are asked for. Each is used once and destroyed:
 *
 *   vial_engine_open -> vial_engine_warm -> { vial_run }* -> vial_engine_close
 *
 * From vial_engine_warm on, vial_run takes a waiting vessel by itself whenever
 * the request's plan differs from it only in what can still be set on an open
 * vessel: time-out, stdin, environment, files, arguments, output limits, and
 * lower limits where a cgroup holds them. Anything else, and every request that
 * finds none waiting nor about to, opens a vessel as without; the result's `start`
 * says "warm" or "cold", and its `queue_ms` what was waited for one in the making.
 *
 * What is kept ready follows what is asked for: shapes of plans that come again
 * get a stock of their own, which grows with their rate and shrinks when idle.
 *
 * Each vessel that waits holds descriptors of this process (eight or nine, where it is
 * native). Beyond a quarter of RLIMIT_NOFILE's soft value another is opened only while
 * half of it is free, and some are given up when less than a quarter is; who wants many
 * must raise it first. The library does not.
 */

#include "vial/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise; what stays 0 or NULL gets the value in parentheses. */
struct vial_warm_options {
    /* Kept ready from the start, with the settings' defaults; ends with NULL
     * (none: only what is asked for becomes warm). */
    const char *const *languages;
    /* Modules that waiting Python interpreters have imported; those that cannot
     * be imported are left out, and named in the report. Ends with NULL (none). */
    const char *const *imports;
    unsigned target;       /* waiting per shape at rest (2) */
    unsigned ceiling;      /* most per shape (64) */
    uint64_t memory_bytes; /* of all waiting vessels together (1 GiB) */
    unsigned idle_s;       /* a shape not asked for so long gives its stock up (60) */
    /* Interpreters that wait share nothing with those of another vial_watch.caller:
     * each caller has a trusted interpreter of its own, as long as there is room for
     * it, and runs cold beyond that (false: all share one). */
    bool by_caller;
};

/* Switches pools on. Starts threads and, for Python, a trusted interpreter from
 * which others are forked; returns at once, before anything waits. OPTIONS may be
 * NULL. No run may be under way, and it can be done once for an engine. */
VIAL_API VIAL_MUST_CHECK int vial_engine_warm(struct vial_engine *engine,
                                              const struct vial_warm_options *options,
                                              struct vial_error *err);

/* Keeps COUNT vessels ready for requests like REQ from now on, and waits until so
 * many do, at most TIMEOUT_MS (0: does not wait). -1 when they do not, at once when
 * there are too few descriptors for them: VIAL-BUSY; or when no vessel can wait for
 * such a request: VIAL-UNSUPPORTED. */
VIAL_API VIAL_MUST_CHECK int vial_warm_ready(struct vial_engine *engine,
                                             const struct vial_request *req,
                                             unsigned count, unsigned timeout_ms,
                                             struct vial_error *err);

/* How many vessels wait now. */
VIAL_API unsigned vial_warm_waiting(struct vial_engine *engine);

/* Per shape: idle, taken, missed, refills, what a refill and a waiting vessel cost, and
 * what it lacks ("memory", "descriptors") to have as many as it wants. malloc'ed JSON
 * text in *JSON. */
VIAL_API VIAL_MUST_CHECK int vial_warm_report(struct vial_engine *engine, char **json,
                                              struct vial_error *err);

#ifdef __cplusplus
}
#endif
#endif
