/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_GRADE_LINE_H
#define VIAL_BATCH_GRADE_LINE_H

/* What a row's line of output says. */

#include "batch/grade.h"

/* What of a result stands in the output. */
void grade_line_result(const struct grader *g, const struct vial_result *r,
                       json_t *into);
/* What held it. */
void grade_line_vessel(const struct vial_result *r, json_t *line);
/* HumanEval's words for how it went. */
void grade_line_humaneval(struct grade *out);
/* Only what was asked for stays, and what a batch needs to go on. */
void grade_line_leave_out(const struct grader *g, json_t *line);

#endif
