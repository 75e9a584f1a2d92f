/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_RUN_LIFE_H
#define VIAL_ENGINE_RUN_LIFE_H

/*
 * The life of a plan's program, stage by stage. Whoever runs one has a verb for each:
 * a run in a vessel of its own (life.c), a call in a vessel that is kept
 * (session/keep_call.c). A stage that the plan does not need is not passed.
 */

#include "model/plan.h"

enum life_stage {
    LIFE_BEGIN, /* nothing was said of it to the guest yet */
    LIFE_FILES_IN,
    LIFE_COMPILE,
    LIFE_LOOK, /* at what lies where artifacts are looked for */
    LIFE_RUN,
    LIFE_FILES_OUT,
    LIFE_ARTIFACTS,
    LIFE_ENDED,
};

/* The next stage after NOW that PLAN needs. */
enum life_stage life_after(enum life_stage now, const struct plan *plan);

#endif
