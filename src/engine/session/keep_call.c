/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session/keep_call.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "engine/run/expand.h"
#include "engine/run/run.h"
#include "model/result.h"

#include "vial/files.h"

#define PIECE    (64u << 10)
#define SLICE_MS 50 /* how late a cancellation may be seen */

/* Few and small, as a program's text is: they go with it, without a wait for each. */
static bool is_light(const struct plan *plan)
{
    for (size_t i = 0; i < plan->file_count; i++)
        if (plan->files[i].content.len > FILES_LIGHT)
            return false;
    return plan->file_count <= LIGHT_FILES;
}

/* With the session's lock held. */
static int queue_files(struct kept_call *c, struct vial_error *err)
{
    while (is_light(c->plan) && c->queued < c->plan->file_count) {
        const struct plan_file *f = &c->plan->files[c->queued];

        if (files_put_queue(&c->ways[c->queued], c->session, f->path, &f->content,
                            f->mode, err) < 0)
            return -1;
        c->queued++;
    }
    return 0;
}

/* A file that could not be put spoils the call, whatever its program made of that. */
static int settle_files(struct kept_call *c, struct vial_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < c->queued; i++)
        if (files_put_settle(&c->ways[i], rc == 0 ? err : NULL) < 0)
            rc = -1;
    c->queued = 0;
    return rc;
}

static int put_files(struct kept_call *c, struct vial_result *r, struct vial_error *err)
{
    (void)r;
    for (size_t i = 0; !is_light(c->plan) && i < c->plan->file_count; i++) {
        const struct plan_file *f = &c->plan->files[i];

        if (vial_session_put(c->session, f->path, f->content.data, f->content.len,
                             f->mode, err) < 0)
            return -1;
    }
    return 0;
}

/* Before any comes: the session's lock is held. */
static void collect_output(struct kept_call *c)
{
    static const uint64_t begins[2] = { 0 };

    outputs_begin(c->kept, c->plan);
    c->exec->collected = c->kept;
    if (c->watch->output)
        exec_output_follow(c->exec, begins);
}

/* With the session's lock held. Its language was judged with the plan. */
static int start_locked(struct kept_call *c, struct vial_error *err)
{
    struct vial_session *s = c->session;
    bool compiling = c->stage == LIFE_COMPILE;
    auto_program_step struct program_step step = { 0 };
    struct vial_exec_options o = { 0 };

    if (session_touch(s, err) < 0 || (!c->steps && queue_files(c, err) < 0))
        return -1;
    c->steps = true;
    if (expand_step(c->plan, s->vessel, compiling, &step, err) < 0)
        return -1;
    o.argv = (const char *const *)step.argv.items;
    o.env = (const char *const *)step.env.items;
    o.cwd = c->plan->cwd; /* which the exec expands, as any other caller's */
    o.correlation = c->watch->correlation;
    o.timeout_ms = plan_wall_ms(c->plan, compiling);
    if (compiling && o.timeout_ms > s->plan->limits.wall_ms)
        o.timeout_ms = s->plan->limits.wall_ms; /* the most that a program has here */
    if (!compiling) {
        o.stdin_data = c->plan->stdin_data.data;
        o.stdin_len = c->plan->stdin_data.len;
    }
    if (exec_new(s, &o, false, &c->exec, err) < 0)
        return -1;
    collect_output(c);
    session_flush(s);
    if (c->exec->deadline_ns < s->wakes_ns)
        session_wake(s);
    return 0;
}

/* What a stream has brought since, to whoever watches. False: they have enough. */
static bool tell(struct kept_call *c, int stream)
{
    auto_free char *piece = malloc(PIECE);
    struct vial_chunk chunk = { 0 };

    if (!piece)
        return true;
    do {
        if (vial_exec_read(c->exec, stream, c->told[stream - 1], piece, PIECE, 0,
                           &chunk, NULL) < 0)
            return true;
        c->told[stream - 1] = chunk.offset + chunk.len;
        if (chunk.len > 0 &&
            c->watch->output(c->watch->context, stream, piece, chunk.len) != 0)
            return false;
    } while (chunk.len > 0);
    return true;
}

static bool is_cancelled(struct kept_call *c)
{
    struct pollfd cancel = { .fd = c->watch->cancel_fd, .events = POLLIN };

    if (cancel.fd >= 0 && poll(&cancel, 1, 0) > 0)
        return true;
    return c->watch->output && (!tell(c, 1) || !tell(c, 2));
}

static void wait_for_end(struct kept_call *c)
{
    bool watched = c->watch->cancel_fd >= 0 || c->watch->output;

    c->told[0] = c->told[1] = 0;
    do {
        vial_exec_wait(c->exec, watched ? SLICE_MS : -1, &c->status);
        /* What has ended is not cancelled any more, but a program to come is. */
        if (!is_cancelled(c) || c->cancelled ||
            (!c->status.running && c->stage != LIFE_COMPILE))
            continue;
        c->cancelled = true;
        if (vial_exec_signal(c->exec, SIGKILL, true, NULL) < 0)
            continue; /* it has ended, which the next look shows */
    } while (c->status.running);
}

/* 0 with the status filled, whatever became of it. */
static int run_step(struct kept_call *c, struct vial_result *r, struct vial_error *err)
{
    int rc;

    vial_exec_free(c->exec); /* the compiler's */
    c->exec = NULL;
    r->stage = c->stage == LIFE_COMPILE ? "compile" : "run";
    session_lock(c->session);
    rc = start_locked(c, err);
    session_unlock(c->session);
    if (rc == 0)
        wait_for_end(c);
    return rc;
}

/* TOTAL bytes came before it. Its error says why it did not come. */
static void take_file(const struct kept_call *c, struct vial_result *r,
                      struct vial_file *f, int64_t total)
{
    auto_str struct str all = { 0 };
    struct files_way w;
    size_t before = 0;
    int rc;

    if (files_get_begin(&w, c->session, f->path, 0, 0, &f->error) < 0)
        return;
    do {
        rc = files_get_some(&w, &all, &f->error);
        if (rc >= 0 && transfer_pay(r, f->path, total + (int64_t)all.len,
                                    all.len - before, &f->error) < 0)
            rc = -1;
        before = all.len;
    } while (rc > 0);
    files_get_end(&w);
    if (rc < 0)
        return;
    f->len = all.len;
    f->data = str_take(&all);
    if (!f->data)
        (void)fail_memory(&f->error);
}

static int take_files(struct kept_call *c, struct vial_result *r,
                      struct vial_error *err)
{
    size_t count = c->plan->outputs.count;
    int64_t total = 0;

    r->files = calloc(count, sizeof(*r->files));
    if (!r->files)
        return fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        struct vial_file *f = &r->files[r->file_count++];

        f->path = strdup(c->plan->outputs.items[i]);
        if (!f->path)
            return fail_memory(err);
        take_file(c, r, f, total);
        total += (int64_t)f->len;
    }
    return 0;
}

static int take_vessel(const struct kept_call *c, struct vial_result *r)
{
    struct vial_session *s = c->session;
    int rc = 0;

    session_lock(s);
    (void)snprintf(r->level, sizeof(r->level), "%s", s->report.level);
    (void)snprintf(r->limits_by, sizeof(r->limits_by), "%s", s->report.limits_by);
    (void)snprintf(r->driver, sizeof(r->driver), "%s", s->report.driver);
    (void)snprintf(r->vessel_id, sizeof(r->vessel_id), "%s", s->report.vessel_id);
    if (s->vessel)
        rc = collect_vessel(s->engine, s->plan, s->vessel, r);
    session_unlock(s);
    return rc;
}

static void take_status(struct kept_call *c, struct vial_result *r)
{
    const struct evidence cancelled = { .end = RUN_CANCELLED,
                                        .cut = r->out.truncated || r->err.truncated };
    const struct vial_exec_status *st = &c->status;
    const struct judgement ended = { .verdict = st->verdict,
                                     .exit_code = st->exit_code,
                                     .signal = st->signal,
                                     .limits_hit = c->exec->limits_hit };

    c->alive = c->exec->alive;
    collect_judgement(c->cancelled ? judge(&cancelled) : ended, &st->error, r);
    r->duration_ms = r->timing.run_ms = st->duration_ms;
    r->usage.cpu_user_ms = st->cpu_user_ms;
    r->usage.cpu_system_ms = st->cpu_system_ms;
    r->usage.memory_peak_bytes = st->memory_peak_bytes;
    r->network_refused = st->network_refused;
    r->network = ptr_take(&c->exec->network);
}

/* Its steps are over. */
static int take_result(struct kept_call *c, struct vial_result *r,
                       struct vial_error *err)
{
    if (output_take(&c->kept[0], &r->out) < 0 ||
        output_take(&c->kept[1], &r->err) < 0 || take_vessel(c, r) < 0)
        return fail_memory(err);
    take_status(c, r);
    return 0;
}

/* The program's own step, or a compiler behind which it does not come. */
static bool is_last_step(const struct kept_call *c)
{
    return c->stage == LIFE_RUN ||
           (c->stage == LIFE_COMPILE &&
            (c->compile_only || c->cancelled || c->status.verdict != VIAL_OK));
}

typedef int call_verb(struct kept_call *c, struct vial_result *r,
                      struct vial_error *err);

static int go_through(struct kept_call *c, struct vial_result *r,
                      struct vial_error *err)
{
    /* There is none for artifacts: the vessel's files are not the call's alone. */
    static call_verb *const verbs[] = {
        [LIFE_FILES_IN] = put_files,   [LIFE_COMPILE] = run_step, [LIFE_RUN] = run_step,
        [LIFE_FILES_OUT] = take_files, [LIFE_ENDED] = NULL,
    };
    int rc = 0;

    r->stage = c->plan->compile_argv.count > 0 ? "compile" : "run";
    while (rc == 0 && c->stage != LIFE_ENDED) {
        c->stage = life_after(c->stage, c->plan);
        if (verbs[c->stage])
            rc = verbs[c->stage](c, r, err);
        if (rc == 0 && is_last_step(c)) {
            rc = take_result(c, r, err);
            c->stage = c->compile_only ? LIFE_ENDED : LIFE_RUN;
        }
    }
    return rc;
}

int kept_call_run(struct kept_call *c, struct vial_result *r, struct vial_error *err)
{
    int rc = go_through(c, r, err);

    if (settle_files(c, rc == 0 ? err : NULL) < 0) {
        r->exit_code = rc = -1;
        r->signal = 0;
    }
    vial_exec_free(c->exec);
    c->exec = NULL;
    outputs_done(c->kept);
    return rc;
}

static bool may_differ(enum field_id id)
{
    static const enum field_id fields_of_calls[] = { FIELD_ID_language,
                                                     FIELD_ID_code,
                                                     FIELD_ID_command,
                                                     FIELD_ID_args,
                                                     FIELD_ID_stdin,
                                                     FIELD_ID_files,
                                                     FIELD_ID_outputs,
                                                     FIELD_ID_env,
                                                     FIELD_ID_cwd,
                                                     FIELD_ID_timeout,
                                                     FIELD_ID_compile_timeout,
                                                     FIELD_ID_session,
                                                     FIELD_ID_output_limit,
                                                     FIELD_ID_output_keep,
                                                     FIELD_ID_task };

    for (size_t i = 0; i < sizeof(fields_of_calls) / sizeof(*fields_of_calls); i++)
        if (fields_of_calls[i] == id)
            return true;
    return false;
}

int kept_call_check(const struct vial_request *req, struct vial_error *err)
{
    for (int i = 0; i < FIELD_ID__COUNT; i++) {
        if (!((req->set >> i) & 1u) || may_differ((enum field_id)i))
            continue;
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "'%s' is the kept vessel's, and not a call's", fields[i].name);
        return fail_remedy(err, "leave it out, or run without a kept vessel");
    }
    return 0;
}

struct vial_result *kept_call_result(const struct plan *plan)
{
    struct vial_result *r = result_new();

    if (!r)
        return NULL;
    (void)snprintf(r->id, sizeof(r->id), "%s", plan ? plan->id : "r-0");
    if (plan)
        (void)snprintf(r->driver, sizeof(r->driver), "%s", plan->driver);
    if (plan && plan->image)
        r->image = strdup(plan->image);
    return r;
}
