/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_ROW_TESTS_H
#define VIAL_BATCH_ROW_TESTS_H

/* A row's program on each of its tests, in turn, and what comes of it. */

#include "batch/grade.h"

/* BASE is the program; what came of each test goes into LIST, and all together into
 * OUT. -1: a test cannot be run. */
int row_tests_run(struct grader *g, const struct row *row,
                  const struct vial_request *base, json_t *list, struct grade *out,
                  struct vial_error *err);

#endif
