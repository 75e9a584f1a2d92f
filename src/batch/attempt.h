/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_ATTEMPT_H
#define VIAL_BATCH_ATTEMPT_H

/* One program's run, again if that was vial's own fault. */

#include "base/auto.h"
#include "batch/grade.h"

AUTO(batch_result, struct vial_result, vial_result_free)
#define auto_batch_result __attribute__((cleanup(auto_batch_result_)))

/* Whether the batch is to end. */
bool attempt_cancelled(const struct grader *g);
/* *ATTEMPTS: how often it was run. */
int attempt_run(const struct grader *g, const struct vial_request *req,
                struct vial_result **out, unsigned *attempts, struct vial_error *err);

#endif
