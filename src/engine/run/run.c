/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/state.h"
#include "base/sys.h"
#include "driver/native/custom_filter.h"
#include "engine/pool/pool.h"
#include "engine/record/audit_run.h"
#include "engine/run/fetch_image.h"
#include "keeper/client/client.h"
#include "model/result.h"
#include "model/value.h"
#include "plan/build.h"
#include "workspace/apply.h"

#define TURN_MS 50 /* and as much again at most, between two looks for a place */

static const struct vial_watch nobody = { .cancel_fd = -1, .stdin_fd = -1 };

/* Without the guest nothing can run, but all else works: runs say what is
 * missing. */
static int open_guest(const char *share_dir)
{
    auto_free char *path = path_join(share_dir, "vial-init");

    return path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
}

static int read_settings(const struct vial_engine_options *o, struct settings **out,
                         struct vial_error *err)
{
    const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe): read only */
    auto_free char *state = state_path(home);
    const struct settings_sources from = {
        .preset = o->preset,
        .config = o->config,
        .project_dir = o->project_dir,
        .share_dir = o->share_dir,
        .environ_ = environ,
        .home = home,
        .state = state,
    };

    return settings_load(&from, out, err);
}

int engine_open(const struct vial_engine_options *options, struct settings *settings,
                struct vial_engine **out, struct vial_error *err)
{
    static const struct vial_engine_options usual;
    const struct vial_engine_options *o = options ? options : &usual;
    struct vial_engine *e = calloc(1, sizeof *e);

    if (!e)
        return fail_memory(err);
    e->guest_fd = -1;
    e->drivers = o->kept ? kept_drivers : drivers;
    e->journal = o->journal;
    e->budget = budget_ref(o->budget);
    e->settings = settings;
    e->borrowed = settings != NULL;
    if ((!settings && read_settings(o, &e->settings, err) < 0) ||
        custom_load(&e->settings->languages, err) < 0) {
        engine_close(e);
        return -1;
    }
    e->guest_fd = open_guest(e->settings->share_dir);
    record_open(e, o->audit);
    *out = e;
    return 0;
}

void engine_close(struct vial_engine *e)
{
    if (!e)
        return;
    pool_close(e->pool);
    if (!e->borrowed)
        settings_free(e->settings);
    if (e->guest_fd >= 0)
        (void)close(e->guest_fd);
    audit_close(e->audit);
    budget_unref(e->budget);
    free(e);
}

int engine_plan(struct vial_engine *e, const struct vial_request *req,
                const struct driver **driver, struct plan **out, struct vial_error *err)
{
    auto_request struct vial_request full = { 0 };
    struct plan_driver maker;

    if (admit(e, req, &full, driver, err) < 0)
        return -1;
    maker = (struct plan_driver){ (*driver)->name, (*driver)->wants_image };
    return plan_build(&full, e->settings, &maker, out, err);
}

void run_init(struct run *r, struct vial_engine *e, const struct vial_watch *watch)
{
    *r = (struct run){
        .engine = e,
        .watch = watch ? watch : &nobody,
        .started_ns = clock_now_ns(),
    };
}

static void close_vessel(struct run *r)
{
    if (r->vessel && r->stock)
        pool_destroy(r->engine->pool, r->stock, r->vessel);
    else if (r->vessel)
        r->driver->close(r->vessel);
    r->vessel = NULL;
}

void run_done(struct run *r)
{
    close_vessel(r);
    plan_free(r->plan);
    link_free(r->taken_link);
    conversation_end(&r->talk);
    str_done(&r->fetched);
    artifacts_free(r->artifacts);
    output_done(&r->out);
    output_done(&r->err);
}

/* Peaks are of the whole life, as making it is part of that. */
void run_usage(struct run *r, struct vessel_usage *out)
{
    r->driver->usage(r->vessel, out);
    out->usage.cpu_user_ms -= r->before.usage.cpu_user_ms;
    out->usage.cpu_system_ms -= r->before.usage.cpu_system_ms;
    out->usage.throttled_ms -= r->before.usage.throttled_ms;
}

static int check_guest(const struct vial_engine *e, struct vial_error *err)
{
    if (e->guest_fd >= 0)
        return 0;
    (void)fail(err, VIAL_E_GUEST, "open guest '%s/vial-init'", e->settings->share_dir);
    return fail_remedy(err, "reinstall vial, or set VIAL_SHARE to the directory that "
                            "holds vial-init");
}

/* Whoever works on a tree next finds it whole; but a daemon's front, which has given up
 * the user whose records these are, can neither read nor apply them. */
static int recover_commits(struct vial_engine *e, const struct plan *plan,
                           struct vial_error *err)
{
    auto_free char *state = NULL;

    if (e->drivers == kept_drivers || plan->mount_count == 0 || !plan->mounts[0].is_dir)
        return 0;
    state = state_path(e->settings->home);
    return state ? apply_recover(state, plan->mounts[0].source, err) : 0;
}

static int open_as_it_is(const struct vial_engine *e, const struct vessel_order *o,
                         struct vessel **out, struct vial_error *err)
{
    if (o->shared)
        return o->driver->open_supplied(o->shared, o->plan, e->guest_fd, out, err);
    return o->driver->open(o->plan, e->guest_fd, out, err);
}

/* When the image is to be pulled; never for whom nothing is pulled. */
static enum plan_pull pull_when(const struct vessel_order *o)
{
    if (!o->driver->pull || !o->plan->image || (o->watch && o->watch->local_images))
        return PULL_NEVER;
    return o->plan->container.pull;
}

/* An open for want of an image has made nothing yet. */
static int open_with_image(struct vial_engine *e, const struct vessel_order *o,
                           struct vessel **out, struct vial_error *err)
{
    enum plan_pull when = pull_when(o);
    struct vial_error why = { 0 };
    int rc;

    if (when == PULL_ALWAYS && fetch_for(e, o->driver, o->plan, o->watch, err) < 0)
        return -1;
    rc = open_as_it_is(e, o, out, &why);
    if (rc < 0 && when == PULL_MISSING &&
        str_eq(why.code, fail_code_text(VIAL_E_IMAGE)))
        return fetch_for(e, o->driver, o->plan, o->watch, err) < 0
                   ? -1
                   : open_as_it_is(e, o, out, err);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* 0: a while has passed; -1: the caller has had enough. Who wait do not all look at the
 * same moment. */
static int wait_a_while(const struct vial_watch *watch, struct vial_error *err)
{
    struct pollfd cancel = { .fd = watch ? watch->cancel_fd : -1, .events = POLLIN };
    uint32_t dice = 0;

    if (sys_random(&dice, sizeof(dice)) < 0)
        dice = 0;
    if (poll(&cancel, 1, (int)(TURN_MS + dice % TURN_MS)) > 0)
        return fail(err, VIAL_E_CANCELLED, "the caller cancelled the run");
    return 0;
}

/* Where as many containers are open as may be, for as long as an open may take. */
static int open_in_turn(struct vial_engine *e, const struct vessel_order *o,
                        struct vessel **out, struct vial_error *err)
{
    int64_t until_ns = clock_now_ns() + o->plan->container.open_ms * 1000000;
    bool told = false;

    for (;;) {
        struct vial_error why = { 0 };

        if (open_with_image(e, o, out, &why) == 0)
            return 0;
        if (!str_eq(why.code, fail_code_text(VIAL_E_BUSY)) || o->shared || !o->watch ||
            clock_now_ns() >= until_ns) {
            if (err)
                *err = why;
            return -1;
        }
        if (!told && o->watch->notice)
            o->watch->notice(o->watch->context,
                             "as many containers are open as may be at once; this "
                             "waits for its turn");
        told = true;
        if (wait_a_while(o->watch, err) < 0)
            return -1;
    }
}

/* A vessel that is weaker than what was required never runs anything. */
int engine_vessel(struct vial_engine *e, const struct vessel_order *order,
                  struct vessel **out, struct vial_error *err)
{
    const struct driver *driver = order->driver;
    const struct strv *require = &order->plan->require;
    struct vessel *v = NULL;

    if (check_guest(e, err) < 0 || recover_commits(e, order->plan, err) < 0)
        return -1;
    if (open_in_turn(e, order, &v, err) < 0) {
        driver_explain(driver, require, err);
        return -1;
    }
    if (v->swept)
        record_cleanup(e, driver->name, v->swept, NULL);
    if (driver_check_required(require, v->level, &v->layers, v->limits_by, err) < 0) {
        driver->close(v);
        return -1;
    }
    *out = v;
    return 0;
}

static bool take_vessel(struct run *r)
{
    const struct pool_demand wanted = { r->driver, r->plan, r->watch->caller };
    struct ready ready = { 0 };

    if (!r->engine->pool || !pool_take(r->engine->pool, &wanted, &ready, &r->stock))
        return false;
    r->vessel = ready.vessel;
    r->taken_link = ready.link;
    r->before = ready.before;
    r->queued_ms = ready.queued_ms;
    r->waiting_channel = ready.channel;
    return true;
}

/* Both streams in full, unless they are only passed on. */
static uint64_t output_most(const struct plan *plan, const struct vial_watch *watch)
{
    if (watch->live_only && !plan->stream_limited)
        return 0;
    return 2 * (uint64_t)plan->limits.output_bytes;
}

int engine_reserve(struct vial_engine *e, const struct plan *plan,
                   const struct vial_watch *watch, struct vial_result *result,
                   struct vial_error *err)
{
    uint64_t most = output_most(plan, watch);
    uint64_t share = budget_share(e->budget, BUDGET_MEMORY);

    result_charged_to(result, e->budget, watch->caller);
    if (result_charge(result, most))
        return 0;
    if (most > share) {
        (void)fail(err, VIAL_E_CAP,
                   "the output of this run may take %" PRIu64
                   " bytes of memory, and a caller has %" PRIu64,
                   most, share);
        return fail_remedy(err, "ask for a lower 'output_limit', or read the output as "
                                "a stream; the operator's setting is "
                                "'serve.output_memory'");
    }
    (void)fail(err, VIAL_E_BUSY,
               "there is no memory left for the output of this run (%" PRIu64
               " bytes) beside that of others",
               most);
    return fail_remedy(err, "try again when other answers were read, ask for a lower "
                            "'output_limit', or read the output as a stream");
}

bool engine_counts_kills(const struct vessel *vessel)
{
    return str_eq(vessel->limits_by, "cgroup1") || str_eq(vessel->limits_by, "cgroup2");
}

/* Looking for a program costs more than all else that comes before the first byte. */
static int admit_run(struct run *r, const struct vial_request *req,
                     struct vial_error *err)
{
    struct pool *pool = r->engine->pool;
    char wanted[WANTED_SIZE];

    r->assumed = pool && pool_has_program(pool, r->driver, r->plan);
    if (r->assumed || admit_programs(r->driver, r->plan, err) == 0)
        return 0;
    engine_wanted(r->engine, req, r->driver->name, wanted);
    if (!wanted[0])
        return -1;
    (void)fail(err, VIAL_E_INTERPRETER,
               "'%s' needs a container engine, and none answers now; this host has no "
               "program of its own for it",
               r->plan->language);
    return fail_remedy(err, "start the engine ('vial doctor' shows which is asked), or "
                            "take a language that 'vial languages' calls usable");
}

static int open_cold(struct run *r, struct vial_error *err)
{
    const struct vessel_order order = { .driver = r->driver,
                                        .plan = r->plan,
                                        .watch = r->watch };

    if (r->assumed && admit_programs(r->driver, r->plan, err) < 0)
        return -1;
    return engine_vessel(r->engine, &order, &r->vessel, err);
}

static void note_create(struct run *r)
{
    if (r->diary.on)
        run_log_step(&r->diary, "create",
                     json_pack("{s:s, s:s?}", "driver", r->driver->name, "image",
                               r->plan->image));
}

static void note_start(struct run *r)
{
    if (r->diary.on)
        run_log_step(&r->diary, "start",
                     json_pack("{s:s, s:f}", "vessel", r->vessel->id, "ms",
                               clock_ms_between(r->started_ns, r->opened_ns)));
}

void engine_wanted(const struct vial_engine *e, const struct vial_request *req,
                   const char *driver, char out[WANTED_SIZE])
{
    const struct settings *s = e->settings;
    char wanted[32] = "";

    out[0] = '\0';
    if (s->seed && !request_has(req, driver))
        request_choice(&s->defaults, FIELD_ID_driver, wanted);
    if (wanted[0] && !str_eq(wanted, "auto") && !str_eq(wanted, driver))
        (void)snprintf(out, WANTED_SIZE, "%.15s", wanted);
}

void engine_announce(const struct vial_watch *watch, const char *driver,
                     const char *wanted)
{
    auto_str struct str text = { 0 };

    if (!wanted[0] || !watch->notice)
        return;
    result_stand_in(&text, driver, wanted);
    if (str_ok(&text))
        watch->notice(watch->context, text.data);
}

/* Before the first byte of output. */
static void announce(const struct run *r, const struct vial_request *req)
{
    const struct limits *l = &r->plan->limits;
    bool compiles = r->plan->compile_argv.count > 0;
    char wanted[WANTED_SIZE];

    if (r->watch->planned)
        r->watch->planned(r->watch->context,
                          l->wall_ms + (compiles ? l->compile_wall_ms : 0));
    engine_wanted(r->engine, req, r->driver->name, wanted);
    engine_announce(r->watch, r->driver->name, wanted);
}

static int open_vessel(struct run *r, const struct vial_request *req,
                       struct vial_error *err)
{
    announce(r, req);
    note_create(r);
    if (!take_vessel(r) && open_cold(r, err) < 0)
        return -1;
    r->opened_ns = clock_now_ns();
    note_start(r);
    return 0;
}

static void finish(struct run *r, struct vial_result *result)
{
    int64_t end_ns;

    close_vessel(r);
    end_ns = clock_now_ns();
    if (r->opened_ns && r->ended_ns) {
        result->timing.open_ms =
            clock_ms_between(r->started_ns, r->opened_ns) - r->queued_ms;
        result->timing.run_ms = clock_ms_between(r->opened_ns, r->ended_ns);
        result->timing.close_ms = clock_ms_between(r->ended_ns, end_ns);
    }
    result->timing.queue_ms = r->watch->queued_ms + r->queued_ms;
    result->duration_ms = clock_ms_between(r->started_ns, end_ns);
}

/* A vessel can die while it waits, and be taken before that shows. Nothing has
 * happened in it then, so that another will do. */
static bool was_stillborn(const struct run *r)
{
    return r->stock && r->end == RUN_LOST && !r->started && r->watch->stdin_fd < 0;
}

static void run_again(struct run *r, struct vial_error *err)
{
    struct run fresh;

    run_init(&fresh, r->engine, r->watch);
    fresh.started_ns = r->started_ns;
    fresh.diary = r->diary;
    fresh.result = r->result;
    (void)memcpy(fresh.correlation, r->correlation, sizeof(fresh.correlation));
    fresh.driver = r->driver;
    fresh.plan = ptr_take(&r->plan);
    fresh.assumed = r->assumed;
    free(r->files); /* none has come */
    run_done(r);
    *r = fresh;
    if (open_cold(r, err) < 0)
        return;
    r->opened_ns = clock_now_ns();
    supervise(r);
}

/* What the preset calls this end, and the driver it would rather have had. */
static void speak_as_preset(const struct run *r, const struct vial_request *req,
                            struct vial_result *result)
{
    const struct settings *s = r->engine->settings;
    const char *code =
        preset_code(s->seed, result->error.code, vial_verdict_name(result->verdict));

    if (result->error.code[0])
        preset_reword(s->seed, &result->error);
    if (code)
        (void)snprintf(result->preset_code, sizeof(result->preset_code), "%s", code);
    if (r->driver)
        engine_wanted(r->engine, req, r->driver->name, result->wanted_driver);
}

/* What the caller calls it; what is remembered has a name in any case. */
static void name_run(struct run *r)
{
    const char *given = r->watch->correlation;

    if (given && value_is_plain(given, strlen(given)))
        (void)snprintf(r->correlation, sizeof(r->correlation), "%.64s", given);
    else if (!given && r->diary.on)
        sys_make_id('q', r->correlation);
}

void run_note_exec(struct run *r)
{
    if (r->diary.on)
        run_log_step(
            &r->diary, "exec",
            json_pack("{s:s}", "stage", run_is_compiling(r) ? "compile" : "run"));
}

static void note_exit(struct run *r, const struct vial_result *result)
{
    if (r->diary.on && result->vessel_id[0])
        run_log_step(&r->diary, "exit",
                     json_pack("{s:s, s:i, s:f}", "verdict",
                               vial_verdict_name(result->verdict), "exit_code",
                               result->exit_code, "ms",
                               clock_ms_between(r->opened_ns, r->ended_ns)));
}

static void note_end(struct run *r, const struct vial_result *result)
{
    if (!r->diary.on)
        return;
    if (result->vessel_id[0]) {
        run_log_step(&r->diary, "remove",
                     json_pack("{s:s, s:f}", "vessel", result->vessel_id, "ms",
                               result->timing.close_ms));
    }
    if (result->error.code[0])
        run_log_step(&r->diary, "error",
                     json_pack("{s:s}", "code", result->error.code));
}

static const char *title_of(const struct vial_request *req)
{
    if (req->language)
        return req->language;
    return req->command.count ? req->command.items[0] : "";
}

/* The life of one request. Each verb is a file of this folder. */
void engine_run(struct vial_engine *e, const struct vial_request *req,
                const struct vial_watch *watch, struct vial_result *result)
{
    struct vial_error err = { 0 };
    auto_run struct run r;

    run_init(&r, e, watch);
    r.result = result;
    run_log_begin(&r.diary, e->journal, e->settings);
    name_run(&r);
    if (engine_plan(e, req, &r.driver, &r.plan, &err) < 0 ||
        plan_correlate(r.plan,
                       r.watch->correlation ? r.watch->correlation : r.correlation,
                       &err) < 0 ||
        admit_run(&r, req, &err) < 0 ||
        engine_reserve(e, r.plan, r.watch, result, &err) < 0 ||
        record_begin(&r, req, &err) < 0 || open_vessel(&r, req, &err) < 0) {
        collect_refusal(&r, &err, result);
    } else {
        supervise(&r);
        if (was_stillborn(&r))
            run_again(&r, &err);
        step_tell_rest(&r);
        if (r.vessel)
            collect(&r, result);
        else
            collect_refusal(&r, &err, result);
    }
    (void)memcpy(result->correlation, r.correlation, sizeof(result->correlation));
    note_exit(&r, result);
    finish(&r, result);
    result_settle(result);
    speak_as_preset(&r, req, result);
    record_end(&r, req, result);
    note_end(&r, result);
    run_log_end(&r.diary, title_of(req), result);
}
