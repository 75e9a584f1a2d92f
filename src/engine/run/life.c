/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/life.h"

#include "engine/run/run.h"

static bool always(const struct plan *plan)
{
    (void)plan;
    return true;
}

static bool has_files(const struct plan *plan)
{
    return plan->file_count > 0;
}

static bool is_compiled(const struct plan *plan)
{
    return plan->compile_argv.count > 0;
}

static bool wants_files(const struct plan *plan)
{
    return plan->outputs.count > 0;
}

static bool wants_artifacts(const struct plan *plan)
{
    return plan->artifacts != NULL;
}

static void end(struct run *r)
{
    run_stop(r, RUN_EXITED);
}

/* What a run enters each stage with; what ends a stage calls run_go_on. A run can end
 * in any of them, by run_stop. */
static const struct {
    bool (*needed)(const struct plan *plan);
    void (*enter)(struct run *r);
} stages[] = {
    [LIFE_FILES_IN] = { has_files, transfer_put },
    [LIFE_COMPILE] = { is_compiled, step_start },
    [LIFE_LOOK] = { wants_artifacts, artifacts_before },
    [LIFE_RUN] = { always, step_start },
    [LIFE_FILES_OUT] = { wants_files, transfer_get },
    [LIFE_ARTIFACTS] = { wants_artifacts, artifacts_after },
    [LIFE_ENDED] = { always, end },
};

enum life_stage life_after(enum life_stage now, const struct plan *plan)
{
    do
        now++;
    while (!stages[now].needed(plan));
    return now;
}

void run_go_on(struct run *r)
{
    r->stage = life_after(r->stage, r->plan);
    stages[r->stage].enter(r);
}

bool run_is_compiling(const struct run *r)
{
    return r->stage != LIFE_BEGIN && r->stage <= LIFE_COMPILE && is_compiled(r->plan);
}
