/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_RESULT_H
#define VIAL_MODEL_RESULT_H

/* Building struct vial_result (public: vial/result.h). */

#include <jansson.h>

#include "base/str.h"

#include "vial/result.h"

/* The names of enum vial_verdict and of enum vial_limit's bits, in order;
 * NULL-terminated. */
extern const char *const result_verdicts[];
extern const char *const result_limits[];

/* Verdict failed, no exit code, until someone knows better. NULL: no memory. */
struct vial_result *result_new(void);
json_t *result_json(const struct vial_result *result, bool raw);
json_t *artifact_json(const struct vial_artifact *a);
json_t *error_json(const struct vial_error *err); /* null when code is "" */

/* Appends what a caller must know when DRIVER stands in for WANTED. */
void result_stand_in(struct str *out, const char *driver, const char *wanted);

#endif
