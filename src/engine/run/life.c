/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/life.h"

#include "engine/run/run.h"

static bool needs(const struct plan *plan, enum life_stage stage)
{
    switch (stage) {
    case LIFE_FILES_IN:
        return plan->file_count > 0;
    case LIFE_COMPILE:
        return plan->compile_argv.count > 0;
    case LIFE_FILES_OUT:
        return plan->outputs.count > 0;
    case LIFE_LOOK:
    case LIFE_ARTIFACTS:
        return plan->artifacts != NULL;
    case LIFE_BEGIN:
    case LIFE_RUN:
    case LIFE_ENDED:
        break;
    }
    return true;
}

enum life_stage life_after(enum life_stage now, const struct plan *plan)
{
    do
        now++;
    while (!needs(plan, now));
    return now;
}

static void end(struct run *r)
{
    run_stop(r, RUN_EXITED);
}

typedef void life_verb(struct run *r);

void run_go_on(struct run *r)
{
    /* What a run enters each stage with; what ends a stage calls this function. A run
     * can end in any of them, by run_stop. */
    static life_verb *const verbs[] = {
        [LIFE_FILES_IN] = transfer_put,
        [LIFE_COMPILE] = step_start,
        [LIFE_LOOK] = artifacts_before,
        [LIFE_RUN] = step_start,
        [LIFE_FILES_OUT] = transfer_get,
        [LIFE_ARTIFACTS] = artifacts_after,
        [LIFE_ENDED] = end,
    };

    r->stage = life_after(r->stage, r->plan);
    verbs[r->stage](r);
}

bool run_is_compiling(const struct run *r)
{
    return r->stage != LIFE_BEGIN && r->stage <= LIFE_COMPILE &&
           needs(r->plan, LIFE_COMPILE);
}
