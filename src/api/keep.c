/* SPDX-License-Identifier: Apache-2.0 */
#include "vial/keep.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/files.h"
#include "api/session.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "engine/output.h"
#include "engine/session.h"
#include "engine/words.h"

#include "vial/files.h"

#define MAX_CALLS   50
#define IDLE_MS     (INT64_C(10) * 60 * 1000)
#define LEASE_MS    (INT64_C(24) * 60 * 60 * 1000)
#define PIECE       (64u << 10)
#define LIGHT_FILES 8
#define SLICE_MS    50 /* how late a cancellation may be seen */

struct vial_keep {
    struct vial_engine *engine; /* borrowed */
    struct vial_request base;
    struct vial_keep_options options;
    pthread_mutex_t lock; /* of all below */
    struct vial_session *session;
    char *image; /* of the session, or NULL */
    struct vial_keep_report report;
};

/* One call while it happens. */
struct call {
    struct vial_keep *keep;
    struct plan *plan;
    const struct vial_watch *watch;     /* never NULL */
    uint64_t told[2];                   /* how much of each stream it has seen */
    struct files_way ways[LIGHT_FILES]; /* of files that go with the program: … */
    size_t queued;                      /* … so many */
    bool steps;                         /* the first has begun */
    struct vial_exec *exec;
    struct vial_exec_status status;
    bool cancelled;
};

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

static int check_fields(const struct vial_request *req, struct vial_error *err)
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

int vial_keep_open(struct vial_engine *engine, const struct vial_request *base,
                   const struct vial_keep_options *options, struct vial_keep **out,
                   struct vial_error *err)
{
    struct vial_keep *k = calloc(1, sizeof(*k));

    if (!k)
        return fail_memory(err);
    (void)pthread_mutex_init(&k->lock, NULL);
    k->engine = engine;
    if (options)
        k->options = *options;
    k->options.max_calls = k->options.max_calls ? k->options.max_calls : MAX_CALLS;
    k->options.idle_ms = k->options.idle_ms ? k->options.idle_ms : IDLE_MS;
    if (k->options.idle_ms < 0 || k->options.idle_ms > LEASE_MS) {
        vial_keep_close(k);
        return fail(err, VIAL_E_VALUE, "idle_ms of the kept vessel is not in 1 … 24 h");
    }
    if (request_fill(&k->base, base, err) < 0) {
        vial_keep_close(k);
        return -1;
    }
    *out = k;
    return 0;
}

static void drop_vessel(struct vial_keep *k)
{
    vial_session_free(k->session);
    k->session = NULL;
    free(k->image);
    k->image = NULL;
    k->report.vessel_id[0] = '\0';
    k->report.calls = 0;
}

/* Whether it has ended is seen by whoever touches it: looking would count what it has
 * used, which takes longer than some programs. */
static bool is_usable(const struct vial_keep *k, const struct plan *plan)
{
    return k->session && k->report.calls < k->options.max_calls &&
           str_eq(k->image, plan->image);
}

/* Calls have their own time-outs; the session's is the most that any may have. */
static int open_vessel(struct vial_keep *k, const struct plan *plan,
                       struct vial_error *err)
{
    auto_request struct vial_request mine = { 0 };
    const struct vial_session_options o = { .idle_ms = k->options.idle_ms,
                                            .lease_ms = LEASE_MS };
    struct vial_session_report now;

    if (request_fill(&mine, &k->base, err) < 0)
        return -1;
    if (plan->image && !mine.image &&
        request_set_text(&mine, FIELD_ID_image, plan->image, strlen(plan->image),
                         "call", err) < 0)
        return -1;
    mine.timeout = policy_cap(&k->engine->settings->policy, FIELD_ID_timeout);
    mine.set |= UINT64_C(1) << FIELD_ID_timeout;
    k->image = plan->image ? strdup(plan->image) : NULL;
    if (plan->image && !k->image)
        return fail_memory(err);
    if (session_open_held(k->engine, &mine, &o, &k->session, err) < 0)
        return -1;
    vial_session_look(k->session, &now);
    (void)snprintf(k->report.vessel_id, sizeof(k->report.vessel_id), "%s",
                   now.vessel_id);
    k->report.vessels++;
    return 0;
}

/* False: it has ended this very moment. */
static bool take_hold(struct vial_session *s)
{
    bool held;

    session_lock(s);
    held = s->held = session_touch(s, NULL) == 0;
    session_unlock(s);
    return held && vial_session_renew(s, 0, NULL) == 0;
}

static void let_go(struct vial_session *s)
{
    session_lock(s);
    s->held = false;
    s->active_ns = clock_now_ns();
    if (s->active_ns + s->options.idle_ms * 1000000 < s->wakes_ns)
        session_wake(s);
    session_unlock(s);
}

static int ensure_vessel(struct vial_keep *k, const struct plan *plan,
                         struct vial_error *err)
{
    if (is_usable(k, plan) && take_hold(k->session))
        return 0;
    drop_vessel(k);
    return open_vessel(k, plan, err);
}

/* Few and small, as a program's text is: they go with it, without a wait for each. */
static bool is_light(const struct plan *plan)
{
    for (size_t i = 0; i < plan->file_count; i++)
        if (plan->files[i].content.len > FILES_LIGHT)
            return false;
    return plan->file_count <= LIGHT_FILES;
}

/* With the session's lock held. */
static int queue_files(struct call *c, struct vial_error *err)
{
    while (is_light(c->plan) && c->queued < c->plan->file_count) {
        const struct plan_file *f = &c->plan->files[c->queued];

        if (files_put_queue(&c->ways[c->queued], c->keep->session, f->path, &f->content,
                            f->mode, err) < 0)
            return -1;
        c->queued++;
    }
    return 0;
}

/* A file that could not be put spoils the call, whatever its program made of that. */
static int settle_files(struct call *c, struct vial_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < c->queued; i++)
        if (files_put_settle(&c->ways[i], rc == 0 ? err : NULL) < 0)
            rc = -1;
    c->queued = 0;
    return rc;
}

static int put_files(const struct call *c, struct vial_error *err)
{
    for (size_t i = 0; !is_light(c->plan) && i < c->plan->file_count; i++) {
        const struct plan_file *f = &c->plan->files[i];

        if (vial_session_put(c->keep->session, f->path, f->content.data, f->content.len,
                             f->mode, err) < 0)
            return -1;
    }
    return 0;
}

static void make_argv(const struct call *c, bool compiling, const struct vessel *v,
                      struct strv *out)
{
    const struct strv *from = compiling ? &c->plan->compile_argv : &c->plan->argv;
    size_t own = compiling ? from->count : c->plan->argv_own;

    for (size_t i = 0; i < from->count; i++) {
        if (i >= own)
            strv_push(out, from->items[i]);
        else if (str_eq(from->items[i], "{code}") && c->plan->code.data)
            strv_push(out, c->plan->code.data);
        else
            words_expand(out, c->plan, v, from->items[i]);
    }
}

/* With the session's lock held. Its language was judged with the plan. */
static int start_locked(struct call *c, bool compiling, struct vial_error *err)
{
    struct vial_session *s = c->keep->session;
    auto_strv struct strv argv = { 0 };
    auto_strv struct strv env = { 0 };
    struct vial_exec_options o = { 0 };

    if (session_touch(s, err) < 0 || (!c->steps && queue_files(c, err) < 0))
        return -1;
    c->steps = true;
    make_argv(c, compiling, s->vessel, &argv);
    words_env(c->plan, s->vessel, &env);
    if (!strv_ok(&argv) || !strv_ok(&env))
        return fail_memory(err);
    o.argv = (const char *const *)argv.items;
    o.env = (const char *const *)env.items;
    o.cwd = c->plan->cwd;
    o.timeout_ms =
        compiling ? c->plan->limits.compile_wall_ms : c->plan->limits.wall_ms;
    if (!compiling) {
        o.stdin_data = c->plan->stdin_data.data;
        o.stdin_len = c->plan->stdin_data.len;
    }
    if (exec_new(s, &o, false, &c->exec, err) < 0)
        return -1;
    session_flush(s);
    if (c->exec->deadline_ns < s->wakes_ns)
        session_wake(s);
    return 0;
}

/* What a stream has brought since, to whoever watches. False: they have enough. */
static bool tell(struct call *c, int stream)
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

static bool is_cancelled(struct call *c)
{
    struct pollfd cancel = { .fd = c->watch->cancel_fd, .events = POLLIN };

    if (cancel.fd >= 0 && poll(&cancel, 1, 0) > 0)
        return true;
    return c->watch->output && (!tell(c, 1) || !tell(c, 2));
}

static void wait_for_end(struct call *c)
{
    bool watched = c->watch->cancel_fd >= 0 || c->watch->output;

    c->told[0] = c->told[1] = 0;
    do {
        vial_exec_wait(c->exec, watched ? SLICE_MS : -1, &c->status);
        if (is_cancelled(c) && c->status.running && !c->cancelled) {
            c->cancelled = true;
            if (vial_exec_signal(c->exec, SIGKILL, true, NULL) < 0)
                continue; /* it has ended, which the next look shows */
        }
    } while (c->status.running);
}

/* 0 with the status filled, whatever became of it. */
static int run_step(struct call *c, bool compiling, struct vial_error *err)
{
    int rc;

    session_lock(c->keep->session);
    rc = start_locked(c, compiling, err);
    session_unlock(c->keep->session);
    if (rc == 0)
        wait_for_end(c);
    return rc;
}

static int take_stream(const struct call *c, int stream, struct vial_stream *out,
                       struct vial_error *err)
{
    auto_free char *piece = malloc(PIECE);
    struct output kept = { 0 };
    struct vial_chunk chunk = { 0 };
    uint64_t at = 0;
    int rc = piece ? 0 : -1;

    output_init(&kept, c->plan->keep, (size_t)c->plan->limits.output_bytes,
                c->plan->output_note);
    while (rc == 0 && !chunk.end) {
        rc = vial_exec_read(c->exec, stream, at, piece, PIECE, -1, &chunk, err);
        if (rc == 0)
            output_add(&kept, piece, chunk.len);
        kept.total += rc == 0 ? chunk.gap : 0;
        at = chunk.offset + chunk.len;
    }
    if (rc == 0 && output_take(&kept, out) < 0)
        rc = fail_memory(err);
    output_done(&kept);
    return rc;
}

static int take_files(const struct call *c, struct vial_result *r)
{
    size_t count = c->plan->outputs.count;

    r->files = count ? calloc(count, sizeof(*r->files)) : NULL;
    if (count && !r->files)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct vial_file *f = &r->files[r->file_count++];

        f->path = strdup(c->plan->outputs.items[i]);
        if (!f->path)
            return -1;
        if (vial_session_get(c->keep->session, f->path, 0, 0, &f->data, &f->len,
                             &f->error) < 0)
            f->data = NULL; /* its error says why */
    }
    return 0;
}

static void take_vessel(const struct call *c, struct vial_result *r)
{
    struct vial_session *s = c->keep->session;
    struct strv layers = { 0 };

    session_lock(s);
    if (s->vessel)
        strv_copy(&layers, &s->vessel->layers);
    (void)snprintf(r->level, sizeof(r->level), "%s", s->report.level);
    (void)snprintf(r->limits_by, sizeof(r->limits_by), "%s", s->report.limits_by);
    (void)snprintf(r->driver, sizeof(r->driver), "%s", s->report.driver);
    (void)snprintf(r->vessel_id, sizeof(r->vessel_id), "%s", s->report.vessel_id);
    session_unlock(s);
    r->layers = layers.items;
}

static void take_status(const struct call *c, struct vial_result *r)
{
    const struct vial_exec_status *st = &c->status;

    r->verdict = c->cancelled ? VIAL_CANCELLED : st->verdict;
    r->exit_code = st->exit_code;
    r->signal = c->cancelled ? 0 : st->signal;
    r->error = st->error;
    r->duration_ms = r->timing.run_ms = st->duration_ms;
    r->usage.cpu_user_ms = st->cpu_user_ms;
    r->usage.cpu_system_ms = st->cpu_system_ms;
    r->usage.memory_peak_bytes = st->memory_peak_bytes;
    if (r->verdict == VIAL_TIMEOUT)
        r->limits_hit |= VIAL_LIMIT_TIME;
    if (r->verdict == VIAL_OOM)
        r->limits_hit |= VIAL_LIMIT_MEMORY;
    if (r->out.truncated || r->err.truncated)
        r->limits_hit |= VIAL_LIMIT_OUTPUT;
    if (c->cancelled)
        (void)fail(&r->error, VIAL_E_CANCELLED, "the caller cancelled the run");
}

static int run_steps(struct call *c, struct vial_result *r, struct vial_error *err)
{
    bool compiles = c->plan->compile_argv.count > 0;

    r->stage = compiles ? "compile" : "run";
    if (compiles && run_step(c, true, err) < 0)
        return -1;
    if (!compiles || c->status.verdict == VIAL_OK) {
        vial_exec_free(c->exec);
        c->exec = NULL;
        r->stage = "run";
        if (run_step(c, false, err) < 0)
            return -1;
    }
    if (take_stream(c, 1, &r->out, err) < 0 || take_stream(c, 2, &r->err, err) < 0)
        return -1;
    take_vessel(c, r);
    take_status(c, r);
    return take_files(c, r) < 0 ? fail_memory(err) : 0;
}

/* What did not end by itself may have left anything behind. */
static bool is_spoilt(const struct vial_result *r)
{
    return r->verdict != VIAL_OK && r->verdict != VIAL_NONZERO &&
           r->verdict != VIAL_SIGNAL;
}

static int serve(struct call *c, struct vial_result *r, struct vial_error *err)
{
    struct vial_keep *k = c->keep;
    int64_t begun_ns = clock_now_ns();
    int rc = ensure_vessel(k, c->plan, err);

    r->timing.open_ms = clock_ms_between(begun_ns, clock_now_ns());
    if (rc == 0) {
        k->report.calls++;
        rc = put_files(c, err);
    }
    if (rc == 0)
        rc = run_steps(c, r, err);
    if (settle_files(c, rc == 0 ? err : NULL) < 0) {
        r->exit_code = rc = -1;
        r->signal = 0;
    }
    vial_exec_free(c->exec);
    c->exec = NULL;
    if (rc < 0 || is_spoilt(r))
        drop_vessel(k);
    else
        let_go(k->session);
    return rc;
}

static void refuse(struct vial_result *r, const struct vial_error *why,
                   const struct plan *plan)
{
    struct output nothing = { 0 };

    r->verdict = plan ? VIAL_FAILED : VIAL_DENIED;
    r->error = *why;
    if (!r->out.data)
        (void)output_take(&nothing, &r->out);
    if (!r->err.data)
        (void)output_take(&nothing, &r->err);
    if (!r->level[0])
        (void)snprintf(r->level, sizeof(r->level), "none");
    if (!r->limits_by[0])
        (void)snprintf(r->limits_by, sizeof(r->limits_by), "none");
}

static int make_plan(struct vial_keep *k, const struct vial_request *req,
                     struct plan **out, struct vial_error *err)
{
    auto_request struct vial_request whole = { 0 };
    const struct driver *driver = NULL;

    if (check_fields(req, err) < 0 || request_fill(&whole, req, err) < 0 ||
        request_fill(&whole, &k->base, err) < 0)
        return -1;
    return engine_plan(k->engine, &whole, &driver, out, err);
}

int vial_keep_run(struct vial_keep *keep, const struct vial_request *req,
                  const struct vial_watch *watch, struct vial_result **out,
                  struct vial_error *err)
{
    static const struct vial_watch nobody = { .cancel_fd = -1, .stdin_fd = -1 };
    auto_plan struct plan *plan = NULL;
    struct call c = { .keep = keep, .watch = watch ? watch : &nobody };
    struct vial_result *r = calloc(1, sizeof(*r));
    struct vial_error why = { 0 };
    int rc;

    if (!r)
        return fail_memory(err);
    r->exit_code = -1;
    r->stage = "run";
    rc = make_plan(keep, req, &plan, &why);
    c.plan = plan;
    (void)snprintf(r->id, sizeof(r->id), "%s", plan ? plan->id : "r-0");
    if (rc == 0) {
        (void)pthread_mutex_lock(&keep->lock);
        rc = serve(&c, r, &why);
        (void)pthread_mutex_unlock(&keep->lock);
    }
    if (rc < 0)
        refuse(r, &why, plan);
    if (plan && plan->image)
        r->image = strdup(plan->image);
    *out = r;
    return 0;
}

void vial_keep_look(struct vial_keep *keep, struct vial_keep_report *out)
{
    struct vial_session_report now;

    (void)pthread_mutex_lock(&keep->lock);
    if (keep->session) {
        vial_session_look(keep->session, &now);
        if (now.outcome != VIAL_SESSION_OPEN)
            drop_vessel(keep);
    }
    *out = keep->report;
    (void)pthread_mutex_unlock(&keep->lock);
}

void vial_keep_close(struct vial_keep *keep)
{
    if (!keep)
        return;
    drop_vessel(keep);
    request_done(&keep->base);
    (void)pthread_mutex_destroy(&keep->lock);
    free(keep);
}
