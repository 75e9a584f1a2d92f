/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RUN_EXPAND_H
#define VIAL_ENGINE_RUN_EXPAND_H

/* The plan's words, once it is known where the vessel really has its places. */

#include "driver/driver.h"
#include "model/plan.h"

/* Appends TEXT with every "{dir}" replaced by the real working directory. */
void expand_text(struct strv *out, const struct plan *plan, const struct vessel *vessel,
                 const char *text);

/* Appends the plan's environment, and what the image adds to it: what the request says
 * wins over the image, and the image over our own PATH and LANG. */
void expand_env(const struct plan *plan, const struct vessel *vessel, struct strv *out);

/* CWD with the plan's workdir replaced by the real one. malloc'ed, or NULL. */
char *expand_cwd(const struct plan *plan, const struct vessel *vessel, const char *cwd);

/* Why an exec did not start: STEP and ERROR as the guest says. Returns -1. */
struct start_failure {
    const char *program, *cwd;
    bool cwd_of_image; /* CWD is its WORKDIR, not what anybody asked for */
    uint32_t step;
    int error;
};
int start_fail(const struct plan *plan, const struct start_failure *f,
               struct vial_error *err);

#endif
