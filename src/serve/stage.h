/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_STAGE_H
#define VIAL_SERVE_STAGE_H

/* How one step of a program ended, the compiler's or its own, with all that it printed,
 * byte for byte; its caller pays for that while it is kept. */

#include "base/str.h"

#include "vial/budget.h"
#include "vial/result.h"

struct stage {
    bool there;    /* it took place */
    bool in_order; /* `both` is wanted */
    bool unpaid;   /* it was ended, as nobody had room for its output */
    bool loud_err; /* what it printed last went to stderr */
    enum vial_verdict verdict;
    int exit_code, signal; /* as in a result */
    double wall_ms, cpu_ms;
    uint64_t memory_bytes, pids;
    struct str out, err;
    struct str both; /* in the order of its arrival */
    struct vial_error error;
    struct vial_result *result; /* with the files that were asked for, or NULL */
    struct vial_budget *budget; /* borrowed */
    const char *who;            /* borrowed */
    uint64_t paid;
};

/* Takes output; for struct job. CONTEXT is the stage. */
int stage_output(void *context, int stream, const void *data, size_t len);

/* Takes how it ended from RESULT, but for its output. */
void stage_end(struct stage *s, const struct vial_result *result);
/* The same, with its output; -1: nobody pays for that, or there is no memory. */
int stage_copy(struct stage *s, const struct vial_result *result);

void stage_done(struct stage *s);
#define auto_stage __attribute__((cleanup(stage_done)))

#endif
