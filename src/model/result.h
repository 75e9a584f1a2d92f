/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_RESULT_H
#define VIAL_MODEL_RESULT_H

/* Building struct vial_result (public: vial/result.h). */

#include <jansson.h>

#include "base/json.h"
#include "base/str.h"

#include "vial/result.h"

/* The names of enum vial_verdict and of enum vial_limit's bits, in order;
 * NULL-terminated. */
extern const char *const result_verdicts[];
extern const char *const result_limits[];

struct vial_budget;

/* Verdict failed, no exit code, until someone knows better. NULL: no memory. */
struct vial_result *result_new(void);
/* Of a result of result_new: who pays for what it holds, until it is freed. */
void result_charged_to(struct vial_result *result, struct vial_budget *budget,
                       const char *who);
/* False: so many bytes more cannot be had now. */
bool result_charge(struct vial_result *result, uint64_t bytes);
/* It is complete: it pays for what it holds, and no more. */
void result_settle(struct vial_result *result);

/* Without output and without the content of files: for records. */
json_t *result_brief(const struct vial_result *result);
json_t *network_json(const struct vial_network *network); /* NULL without memory */
void network_free(struct vial_network *network);          /* NULL is allowed */
/* The whole, whose large parts are left to LARGES (or NULL); those live as long as
 * RESULT. */
json_t *result_tree(const struct vial_result *result, bool raw,
                    struct json_larges *larges);
/* vial_result_json, in pieces. -1: TO wants no more, or there is no memory. */
int result_write(const struct vial_result *result, bool raw,
                 const struct json_sink *to);
/* Bytes of output and files that it holds. */
uint64_t result_held(const struct vial_result *result);
json_t *artifact_json(const struct vial_artifact *a);
json_t *error_json(const struct vial_error *err); /* null when code is "" */

/* Appends what a caller must know when DRIVER stands in for WANTED. */
void result_stand_in(struct str *out, const char *driver, const char *wanted);

#endif
