/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_WORDS_H
#define VIAL_ENGINE_WORDS_H

/* The plan's words, once it is known where the vessel really has its places. */

#include "driver/driver.h"
#include "model/plan.h"

/* Appends TEXT with every "{dir}" replaced by the real working directory. */
void words_expand(struct strv *out, const struct plan *plan,
                  const struct vessel *vessel, const char *text);

/* Appends the plan's environment. */
void words_env(const struct plan *plan, const struct vessel *vessel, struct strv *out);

/* CWD with the plan's workdir replaced by the real one. malloc'ed, or NULL. */
char *words_cwd(const struct plan *plan, const struct vessel *vessel, const char *cwd);

/* Why an exec of PROGRAM did not start: STEP and ERROR as the guest says. CWD is
 * for the message. Returns -1. */
int words_fail(const char *program, const char *cwd, uint32_t step, int error,
               struct vial_error *err);

#endif
