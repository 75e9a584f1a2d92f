/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/stage.h"

#include "base/budget.h"

#define STEP ((uint64_t)1 << 20) /* what is paid for at a time */

/* Twice what there is: a text grows by doubling. */
static bool pay(struct stage *s, size_t len)
{
    uint64_t most = 2 * (uint64_t)(s->out.len + s->err.len + s->both.len + 2 * len);

    while (s->paid < most) {
        if (!budget_take(s->budget, BUDGET_MEMORY, s->who, STEP))
            return false;
        s->paid += STEP;
    }
    return true;
}

int stage_output(void *context, int stream, const void *data, size_t len)
{
    struct stage *s = context;
    struct str *to = stream == 2 ? &s->err : &s->out;

    if (!pay(s, len)) {
        s->unpaid = true;
        return -1;
    }
    s->loud_err = stream == 2;
    str_add(to, data, len);
    if (s->in_order)
        str_add(&s->both, data, len);
    s->unpaid = !str_ok(to) || !str_ok(&s->both);
    return s->unpaid ? -1 : 0;
}

void stage_end(struct stage *s, const struct vial_result *result)
{
    s->there = true;
    s->verdict = result->verdict;
    s->exit_code = result->exit_code;
    s->signal = result->signal;
    s->wall_ms = result->timing.run_ms;
    s->cpu_ms = result->usage.cpu_user_ms + result->usage.cpu_system_ms;
    s->memory_bytes = result->usage.memory_peak_bytes;
    s->pids = result->usage.pids_peak;
    s->error = result->error;
}

int stage_copy(struct stage *s, const struct vial_result *result)
{
    stage_end(s, result);
    s->unpaid = !pay(s, result->out.len + result->err.len);
    if (s->unpaid)
        return -1;
    if (result->out.data)
        str_add(&s->out, result->out.data, result->out.len);
    if (result->err.data)
        str_add(&s->err, result->err.data, result->err.len);
    str_add(&s->both, s->out.data ? s->out.data : "", s->out.len);
    str_add(&s->both, s->err.data ? s->err.data : "", s->err.len);
    return str_ok(&s->out) && str_ok(&s->err) && str_ok(&s->both) ? 0 : -1;
}

void stage_done(struct stage *s)
{
    str_done(&s->out);
    str_done(&s->err);
    str_done(&s->both);
    vial_result_free(s->result);
    if (s->paid)
        budget_give(s->budget, BUDGET_MEMORY, s->who, s->paid);
    *s = (struct stage){ 0 };
}
