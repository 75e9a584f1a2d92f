/* SPDX-License-Identifier: Apache-2.0 */

/* From evidence to verdict, and a run's result. */

#include "engine/run/verdict.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/sys.h"
#include "driver/native/custom_filter.h"
#include "engine/run/network_account.h"
#include "engine/run/run.h"
#include "plan/labels.h"
#include "wire/weaken.h"

static bool ends_on(const struct evidence *e, const char *limit)
{
    return e->plan && strv_has(&e->plan->end_on, limit);
}

static bool died_of(const struct evidence *e, int signal)
{
    return e->end == RUN_EXITED && e->exit && e->exit->kind == EXIT_SIGNAL &&
           e->exit->value == (uint32_t)signal;
}

/* Where nothing counts while it runs, the kernel's rlimit ends a process: by
 * SIGKILL, its hard limit being the soft one. Ticks are coarse, hence the margin. */
static bool cpu_rlimit_hit(const struct evidence *e)
{
    if (!e->plan || e->plan->limits.cpu_ms == 0 || str_starts(e->limits_by, "cgroup"))
        return false;
    return died_of(e, SIGXCPU) ||
           (died_of(e, SIGKILL) && e->cpu_ms >= 0.7 * (double)e->plan->limits.cpu_ms);
}

/* The guest's deadline comes after ours: who says before that it has come is lying. */
static bool was_late(const struct evidence *e)
{
    return e->exit->timed_out && e->exited_ns >= e->due_ns;
}

/* The program ended by itself. */
static enum vial_verdict judge_exit(const struct evidence *e)
{
    if (was_late(e))
        return VIAL_TIMEOUT;
    if (cpu_rlimit_hit(e))
        return VIAL_CPU_TIMEOUT;
    if (ends_on(e, "pids") && e->pids_events > 0)
        return VIAL_PIDS;
    if (ends_on(e, "disk") && e->exit->disk_full && died_of(e, SIGKILL))
        return VIAL_DISK;
    if (e->oom_kills > 0 && exit_was_killed(e->exit))
        return VIAL_OOM;
    if (weaken("guess") && (died_of(e, SIGKILL) || e->exit->value == 128 + SIGKILL))
        return VIAL_OOM;
    if (e->exit->kind == EXIT_SIGNAL)
        return VIAL_SIGNAL;
    return e->exit->value == 0 ? VIAL_OK : VIAL_NONZERO;
}

static enum vial_verdict verdict_of(const struct evidence *e)
{
    switch (e->end) {
    case RUN_EXITED:
        return e->exit ? judge_exit(e) : VIAL_FAILED;
    case RUN_LOST:
        /* The kernel took the guest together with its programs. */
        return e->oom_kills > 0 ? VIAL_OOM : VIAL_FAILED;
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

static unsigned limits_hit(const struct evidence *e, enum vial_verdict verdict)
{
    bool told = e->plan && e->exit; /* of files, which are this program's alone */
    unsigned hit = 0;

    if (e->oom_kills > 0 || e->end == RUN_MEMORY)
        hit |= VIAL_LIMIT_MEMORY;
    if (e->pids_events > 0)
        hit |= VIAL_LIMIT_PIDS;
    if (verdict == VIAL_CPU_TIMEOUT)
        hit |= VIAL_LIMIT_CPU;
    if (told && e->exit->disk_full)
        hit |= VIAL_LIMIT_DISK;
    if (died_of(e, SIGXFSZ) || (told && e->exit->file_full))
        hit |= VIAL_LIMIT_FSIZE;
    if (e->cut || e->end == RUN_OUTPUT)
        hit |= VIAL_LIMIT_OUTPUT;
    if (verdict == VIAL_TIMEOUT)
        hit |= VIAL_LIMIT_TIME;
    if (e->network && e->network->limited)
        hit |= VIAL_LIMIT_NETWORK;
    return hit;
}

struct judgement judge(const struct evidence *e)
{
    struct judgement j = { .verdict = verdict_of(e), .exit_code = -1 };
    /* Else the signal was ours. */
    bool by_itself = e->end == RUN_EXITED && e->exit && j.verdict != VIAL_TIMEOUT &&
                     j.verdict != VIAL_DISK;

    if (by_itself && e->exit->kind == EXIT_SIGNAL)
        j.signal = (int)e->exit->value;
    else if (by_itself)
        j.exit_code = (int)e->exit->value;
    j.limits_hit = limits_hit(e, j.verdict);
    return j;
}

const char *judge_cell(const char *said, bool pressed)
{
    if (pressed)
        return "timeout";
    if (str_eq(said, "interrupted"))
        return "interrupted";
    return str_eq(said, "ok") ? "ok" : "error";
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
    result->files = r->files;
    result->file_count = r->plan->outputs.count;
    r->files = NULL;
    for (size_t i = 0; i < result->file_count; i++) {
        result->files[i].path = strdup(r->plan->outputs.items[i]);
        if (!result->files[i].path)
            return -1;
    }
    return 0;
}

static void collect_name(const struct vial_engine *e, const struct plan *plan,
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

int collect_vessel(const struct vial_engine *e, const struct plan *plan,
                   const struct vessel *v, struct vial_result *result)
{
    struct strv layers = { 0 };

    (void)snprintf(result->vessel_id, sizeof result->vessel_id, "%s", v->id);
    (void)snprintf(result->container_id, sizeof result->container_id, "%s",
                   v->container);
    collect_name(e, plan, v, result);
    (void)snprintf(result->image_digest, sizeof result->image_digest, "%s", v->digest);
    (void)snprintf(result->image_owners, sizeof result->image_owners, "%s",
                   v->owners ? v->owners : "");
    (void)snprintf(result->level, sizeof result->level, "%s", v->level);
    (void)snprintf(result->limits_by, sizeof result->limits_by, "%s", v->limits_by);
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
        sys_make_id_on(serve_settings_node(&r->engine->settings->serve), 'r',
                       result->id);
    if (r->driver)
        (void)snprintf(result->driver, sizeof result->driver, "%s", r->driver->name);
    result->exit_code = -1;
    result->stage = run_is_compiling(r) ? "compile" : "run";
}

void collect_judgement(struct judgement j, const struct vial_error *why,
                       struct vial_result *result)
{
    result->verdict = j.verdict;
    result->exit_code = j.exit_code;
    result->signal = j.signal;
    result->limits_hit = j.limits_hit;
    if (j.verdict == VIAL_FAILED || (j.verdict == VIAL_CANCELLED && why->code[0]))
        result->error = *why;
    else if (j.verdict == VIAL_CANCELLED)
        (void)fail(&result->error, VIAL_E_CANCELLED, "the caller cancelled the run");
}

static struct judgement judge_run(const struct run *r, const struct vessel_usage *u,
                                  const struct vial_result *result)
{
    const struct evidence e = {
        .end = r->end,
        .exit = r->exited ? &r->exit : NULL,
        .exited_ns = r->exited_ns,
        .due_ns = r->due_ns,
        .plan = r->plan,
        .limits_by = r->vessel->limits_by,
        .oom_kills = u->oom_kills,
        .pids_events = u->pids_events,
        .cpu_ms = u->usage.cpu_user_ms + u->usage.cpu_system_ms,
        .cut = result->out.truncated || result->err.truncated,
        .network = result->network,
    };

    return judge(&e);
}

void collect(struct run *r, struct vial_result *result)
{
    struct vessel_usage u = { 0 };
    bool whole;

    collect_names(r, result);
    run_usage(r, &u);
    merge_usage(r, &u);
    result->usage = u.usage;
    if (r->artifacts)
        artifacts_give(r, result);
    whole = collect_stream(r, &r->kept[0], &result->out) == 0 &&
            collect_stream(r, &r->kept[1], &result->err) == 0 &&
            (!r->files || collect_files(r, result) == 0) &&
            collect_vessel(r->engine, r->plan, r->vessel, result) == 0;
    result->network = network_account(r->vessel->gate_fd, false);
    collect_judgement(judge_run(r, &u, result), &r->error, result);
    if (!whole) {
        (void)fail_memory(&result->error);
        result->verdict = VIAL_FAILED;
    }
    if (r->plan->image)
        result->image = strdup(r->plan->image);
    (void)snprintf(result->start, sizeof result->start, "%s",
                   r->stock ? "warm" : "cold");
    result->network_refused = r->exited ? r->exit.net_refused : 0;
    collect_denied(r, result);
}

enum vial_verdict judge_refusal(const struct vial_error *err)
{
    static const enum fail_code faults[] = { VIAL_E_SYSTEM,
                                             VIAL_E_MEMORY,
                                             VIAL_E_INTERNAL,
                                             VIAL_E_GUEST,
                                             VIAL_E_OPEN,
                                             VIAL_E_ENGINE_DOWN,
                                             VIAL_E_ENGINE_TIMEOUT,
                                             VIAL_E_ENGINE_API,
                                             VIAL_E_ENGINE_SPACE,
                                             VIAL_E_CLUSTER_DOWN,
                                             VIAL_E_CLUSTER_API,
                                             VIAL_E_CLUSTER_QUOTA,
                                             VIAL_E_CLUSTER_ROOM,
                                             VIAL_E_CLUSTER_IMAGE,
                                             VIAL_E_CLUSTER_START,
                                             VIAL_E_CLUSTER_EVICTED,
                                             VIAL_E_CLUSTER_DEADLINE,
                                             VIAL_E_CLUSTER_NODE,
                                             VIAL_E_CLUSTER_GONE,
                                             VIAL_E_REMOTE };

    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (fail_is(err, faults[i]))
            return VIAL_FAILED;
    return VIAL_DENIED;
}

void collect_nothing(struct vial_result *result, enum vial_verdict verdict,
                     const struct vial_error *why)
{
    struct output nothing = { 0 };

    result->verdict = verdict;
    if (fail_is(why, VIAL_E_CANCELLED))
        result->verdict = VIAL_CANCELLED;
    result->error = *why;
    if (!result->level[0])
        (void)snprintf(result->level, sizeof result->level, "none");
    if (!result->limits_by[0])
        (void)snprintf(result->limits_by, sizeof result->limits_by, "none");
    if (!result->out.data)
        (void)output_take(&nothing, &result->out); /* "", as callers expect a text */
    if (!result->err.data)
        (void)output_take(&nothing, &result->err);
}

void collect_refusal(const struct run *r, const struct vial_error *err,
                     struct vial_result *result)
{
    collect_names(r, result);
    if (r->plan && r->plan->image)
        result->image = strdup(r->plan->image);
    collect_nothing(result, judge_refusal(err), err);
}
