/* SPDX-License-Identifier: Apache-2.0 */

/* From evidence to result. The verdict comes from what the kernel and our own
 * timers said; the guest is believed about the program's exit and its own
 * counters only. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/sys.h"
#include "driver/native/custom_filter.h"
#include "engine/run/run.h"
#include "plan/labels.h"
#include "wire/weaken.h"

static bool ends_on(const struct run *r, const char *limit)
{
    return strv_has(&r->plan->end_on, limit);
}

static bool died_of(const struct run *r, int signal)
{
    return r->end == RUN_EXITED && r->exit.kind == EXIT_SIGNAL &&
           r->exit.value == (uint32_t)signal;
}

/* Where nothing counts while it runs, the kernel's rlimit ends a process: by
 * SIGKILL, its hard limit being the soft one. Ticks are coarse, hence the margin. */
static bool cpu_rlimit_hit(const struct run *r, const struct vial_usage *usage)
{
    double used_ms = usage->cpu_user_ms + usage->cpu_system_ms;

    if (r->plan->limits.cpu_ms == 0 || str_starts(r->vessel->limits_by, "cgroup"))
        return false;
    return died_of(r, SIGXCPU) ||
           (died_of(r, SIGKILL) && used_ms >= 0.7 * (double)r->plan->limits.cpu_ms);
}

/* The guest's deadline comes after ours: who says before that it has come is lying. */
static bool was_late(const struct run *r)
{
    int64_t wall_ms = plan_wall_ms(r->plan, run_is_compiling(r));

    return r->exit.timed_out &&
           clock_ms_between(r->opened_ns, r->ended_ns) >= (double)wall_ms;
}

/* The program ended by itself. */
static enum vial_verdict judge_exit(const struct run *r, const struct vessel_usage *u)
{
    if (was_late(r))
        return VIAL_TIMEOUT;
    if (cpu_rlimit_hit(r, &u->usage))
        return VIAL_CPU_TIMEOUT;
    if (ends_on(r, "pids") && u->pids_events > 0)
        return VIAL_PIDS;
    if (ends_on(r, "disk") && r->exit.disk_full && died_of(r, SIGKILL))
        return VIAL_DISK;
    if (u->oom_kills > 0 && exit_was_killed(&r->exit))
        return VIAL_OOM;
    if (weaken("guess") && (died_of(r, SIGKILL) || r->exit.value == 128 + SIGKILL))
        return VIAL_OOM;
    if (r->exit.kind == EXIT_SIGNAL)
        return VIAL_SIGNAL;
    return r->exit.value == 0 ? VIAL_OK : VIAL_NONZERO;
}

static enum vial_verdict judge(const struct run *r, const struct vessel_usage *u)
{
    switch (r->end) {
    case RUN_EXITED:
        return judge_exit(r, u);
    case RUN_LOST:
        /* The kernel took the guest together with its programs. */
        return u->oom_kills > 0 ? VIAL_OOM : VIAL_FAILED;
    case RUN_CANCELLED:
        return VIAL_CANCELLED;
    case RUN_WALL:
        return VIAL_TIMEOUT;
    case RUN_CPU:
        return VIAL_CPU_TIMEOUT;
    case RUN_OUTPUT:
        return VIAL_OUTPUT_LIMIT;
    case RUN_PIDS:
        return VIAL_PIDS;
    case RUN_MEMORY:
        return VIAL_OOM;
    case RUN_GOING:
    case RUN_FAILED:
        break;
    }
    return VIAL_FAILED;
}

static unsigned limits_hit(const struct run *r, const struct vessel_usage *u,
                           const struct vial_result *result)
{
    unsigned hit = 0;

    if (u->oom_kills > 0 || r->end == RUN_MEMORY)
        hit |= VIAL_LIMIT_MEMORY;
    if (u->pids_events > 0)
        hit |= VIAL_LIMIT_PIDS;
    if (result->verdict == VIAL_CPU_TIMEOUT)
        hit |= VIAL_LIMIT_CPU;
    if (r->exited && r->exit.disk_full)
        hit |= VIAL_LIMIT_DISK;
    if (died_of(r, SIGXFSZ) || (r->exited && r->exit.file_full))
        hit |= VIAL_LIMIT_FSIZE;
    if (result->out.truncated || result->err.truncated || r->end == RUN_OUTPUT)
        hit |= VIAL_LIMIT_OUTPUT;
    if (result->verdict == VIAL_TIMEOUT)
        hit |= VIAL_LIMIT_TIME;
    return hit;
}

/* The kernel's count where there is one, the guest's word where there is none. */
static void merge_usage(const struct run *r, struct vessel_usage *u)
{
    const struct exit_message *m = &r->exit;
    struct vial_usage *usage = &u->usage;

    if (!r->exited)
        return;
    if (!u->counted) {
        usage->cpu_user_ms = (double)m->user_us / 1000.0;
        usage->cpu_system_ms = (double)m->system_us / 1000.0;
    }
    /* Looking now and then misses what lives shortly. */
    if (usage->memory_peak_bytes == 0 || (usage->memory_peak_bytes < m->max_rss_bytes &&
                                          !str_starts(r->vessel->limits_by, "cgroup")))
        usage->memory_peak_bytes = m->max_rss_bytes;
    if (usage->disk_peak_bytes == 0)
        usage->disk_peak_bytes = m->disk_peak_bytes;
    /* An engine that is asked from far away may not know yet. */
    if (u->oom_kills == 0 && !engine_counts_kills(r->vessel))
        u->oom_kills = m->oom;
}

static void collect_exit(const struct run *r, struct vial_result *result)
{
    if (r->end != RUN_EXITED || was_late(r) || result->verdict == VIAL_DISK)
        return; /* the signal was ours */
    if (r->exit.kind == EXIT_SIGNAL)
        result->signal = (int)r->exit.value;
    else
        result->exit_code = (int)r->exit.value;
}

static int collect_stream(const struct run *r, struct output *o,
                          struct vial_stream *out)
{
    struct output counted = { 0 };

    if (!r->watch->live_only)
        return output_take(o, out);
    if (output_take(&counted, out) < 0)
        return -1;
    out->total_bytes = o->total;
    out->truncated = r->plan->stream_limited && output_is_cut(o);
    return 0;
}

/* The files' content moves into RESULT. */
static int collect_files(struct run *r, struct vial_result *result)
{
    artifacts_give(r, result);
    result->files = r->files;
    result->file_count = r->files ? r->plan->outputs.count : 0;
    r->files = NULL;
    for (size_t i = 0; i < result->file_count; i++) {
        result->files[i].path = strdup(r->plan->outputs.items[i]);
        if (!result->files[i].path)
            return -1;
    }
    return 0;
}

void collect_name(const struct vial_engine *e, const struct plan *plan,
                  const struct vessel *v, struct vial_result *result)
{
    auto_str struct str name = { 0 };

    if (v->name[0])
        str_puts(&name, v->name);
    else if (plan->label_session || plan->label_task)
        labels_name(&name, e->settings->defaults.prefix, plan);
    if (str_ok(&name) && name.data)
        (void)snprintf(result->name, sizeof result->name, "%s", name.data);
}

static int collect_vessel(struct run *r, struct vial_result *result)
{
    struct strv layers = { 0 };
    const struct vessel *v = r->vessel;

    (void)snprintf(result->vessel_id, sizeof result->vessel_id, "%s", v->id);
    (void)snprintf(result->container_id, sizeof result->container_id, "%s",
                   v->container);
    collect_name(r->engine, r->plan, v, result);
    (void)snprintf(result->level, sizeof result->level, "%s", v->level);
    (void)snprintf(result->limits_by, sizeof result->limits_by, "%s", v->limits_by);
    (void)snprintf(result->start, sizeof result->start, "%s",
                   r->stock ? "warm" : "cold");
    strv_copy(&layers, &v->layers);
    result->layers = layers.items; /* NULL when there are none */
    return strv_ok(&layers) ? 0 : -1;
}

/* Without memory some are left out, which is no reason to lose the rest. */
static void collect_denied(const struct run *r, struct vial_result *result)
{
    /* What a keeper's vessel does only its warden knows. */
    result->denials_counted =
        r->plan->count_denied &&
        (r->vessel->jailed || (r->vessel->jail.flags & JAIL_COUNT));
    if (r->denied_count == 0)
        return;
    result->denied = calloc(r->denied_count, sizeof *result->denied);
    for (size_t i = 0; result->denied && i < r->denied_count; i++) {
        struct vial_denied *to = &result->denied[result->denied_count];
        auto_free char *name = custom_call_name(r->denied[i].number);

        if (!name)
            continue;
        (void)snprintf(to->call, sizeof to->call, "%s", name);
        to->count = r->denied[i].before + r->denied[i].count;
        result->denied_count++;
    }
}

static void collect_names(const struct run *r, struct vial_result *result)
{
    if (r->plan)
        (void)snprintf(result->id, sizeof result->id, "%s", r->plan->id);
    else
        sys_make_id('r', result->id);
    if (r->driver)
        (void)snprintf(result->driver, sizeof result->driver, "%s", r->driver->name);
    result->exit_code = -1;
    result->stage = run_is_compiling(r) ? "compile" : "run";
}

void collect(struct run *r, struct vial_result *result)
{
    struct vessel_usage u = { 0 };

    collect_names(r, result);
    run_usage(r, &u);
    merge_usage(r, &u);
    result->usage = u.usage;
    result->verdict = judge(r, &u);
    collect_exit(r, result);
    if (result->verdict == VIAL_FAILED)
        result->error = r->error;
    if (result->verdict == VIAL_CANCELLED)
        (void)fail(&result->error, VIAL_E_CANCELLED, "the caller cancelled the run");
    if (collect_stream(r, &r->out, &result->out) < 0 ||
        collect_stream(r, &r->err, &result->err) < 0 || collect_files(r, result) < 0 ||
        collect_vessel(r, result) < 0) {
        (void)fail_memory(&result->error);
        result->verdict = VIAL_FAILED;
    }
    if (r->plan->image)
        result->image = strdup(r->plan->image);
    result->network_refused = r->exited ? r->exit.net_refused : 0;
    result->limits_hit = limits_hit(r, &u, result);
    collect_denied(r, result);
}

static bool is_fault(const struct vial_error *err)
{
    static const enum fail_code faults[] = { VIAL_E_SYSTEM,         VIAL_E_MEMORY,
                                             VIAL_E_INTERNAL,       VIAL_E_GUEST,
                                             VIAL_E_OPEN,           VIAL_E_ENGINE_DOWN,
                                             VIAL_E_ENGINE_TIMEOUT, VIAL_E_ENGINE_API,
                                             VIAL_E_ENGINE_SPACE };

    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (str_eq(err->code, fail_code_text(faults[i])))
            return true;
    return false;
}

void collect_refusal(const struct run *r, const struct vial_error *err,
                     struct vial_result *result)
{
    struct output nothing = { 0 };

    collect_names(r, result);
    if (r->plan && r->plan->image)
        result->image = strdup(r->plan->image);
    result->verdict = is_fault(err) ? VIAL_FAILED : VIAL_DENIED;
    if (str_eq(err->code, fail_code_text(VIAL_E_CANCELLED)))
        result->verdict = VIAL_CANCELLED;
    result->error = *err;
    (void)snprintf(result->level, sizeof result->level, "none");
    (void)snprintf(result->limits_by, sizeof result->limits_by, "none");
    (void)output_take(&nothing, &result->out); /* "", as callers expect a text */
    (void)output_take(&nothing, &result->err);
}
