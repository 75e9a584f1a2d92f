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

/* True: nobody says where programs start, and the image does. Nothing is in our working
 * directory then that would have to be found there. */
bool expand_starts_in_image(const struct plan *plan, const struct vessel *vessel);

/* The program that a step starts, as it is called. Borrowed. */
const char *expand_program(const struct plan *plan, const struct vessel *vessel,
                           bool compile);

/* One step of the plan's program, compiler (COMPILE) or program, as VESSEL starts it.
 * Whatever comes back, program_step_done releases OUT, which begins empty. */
struct program_step {
    struct strv argv, env;
    char *cwd;
};
int expand_step(const struct plan *plan, const struct vessel *vessel, bool compile,
                struct program_step *out, struct vial_error *err);
void program_step_done(struct program_step *s);
#define auto_program_step __attribute__((cleanup(program_step_done)))

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
