/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_CHECKER_H
#define VIAL_BATCH_CHECKER_H

/* Programs that judge what others printed, each time in a vessel of its own. */

#include "batch/grade.h"

/* One test that was run. */
struct graded {
    const struct vial_request *req;
    json_t *test, *told;
    const struct vial_result *result;
};

/* testlib's conventions: 0 right, 1 and 2 wrong, 7 a part of the points; all else is
 * the checker's own fault. 1: right; 0: wrong; -1: nobody can tell. */
int checker_judge(struct grader *g, const struct graded *it, struct vial_error *err);
/* Those that were compiled. */
void checkers_done(struct grader *g);

#endif
