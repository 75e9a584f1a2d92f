/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_GRADE_REQUEST_H
#define VIAL_BATCH_GRADE_REQUEST_H

/* The requests that a row's programs and checkers become. */

#include "base/auto.h"
#include "base/str.h"
#include "batch/grade.h"

AUTO(batch_request, struct vial_request, vial_request_free)
#define auto_batch_request __attribute__((cleanup(auto_batch_request_)))

/* Of the fields ASKED, and what the batch's flags say of all. */
int grade_request_make(const struct grader *g, json_t *asked, struct vial_request **out,
                       struct vial_error *err);
/* A copy of BASE with MORE fields; lists become longer, the rest is replaced. INPUT, if
 * it is there, is what it reads. */
int grade_request_over(const struct vial_request *base, json_t *more,
                       const struct blob *input, struct vial_request **out,
                       struct vial_error *err);
/* *OUT: REQ compiled, or NULL when there is nothing to compile or that fails, which
 * its runs will tell. */
int grade_request_compile(const struct grader *g, const struct vial_request *req,
                          struct vial_request **out, double *cpu_ms,
                          struct vial_error *err);

#endif
