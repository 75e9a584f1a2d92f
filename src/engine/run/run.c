/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/sys.h"
#include "engine/pool/pool.h"
#include "engine/record/audit_events.h"
#include "engine/run/network_account.h"
#include "model/result.h"
#include "model/value.h"

static const struct vial_watch nobody = { .cancel_fd = -1, .stdin_fd = -1 };

void run_init(struct run *r, struct vial_engine *e, const struct vial_watch *watch)
{
    *r = (struct run){
        .engine = e,
        .watch = watch ? watch : &nobody,
        .started_ns = clock_now_ns(),
        .place = { .fd = -1 },
    };
}

static void close_vessel(struct run *r)
{
    if (r->vessel && r->stock)
        pool_destroy(r->engine->pool, r->stock, r->vessel);
    else if (r->vessel)
        r->driver->close(r->vessel);
    r->vessel = NULL;
    network_leave(r->engine, r->watch->caller, &r->place);
}

void run_done(struct run *r)
{
    close_vessel(r);
    plan_free(r->plan);
    link_free(r->taken_link);
    conversation_end(&r->talk);
    str_done(&r->fetched);
    if (r->artifacts)
        artifacts_free(r->artifacts);
    outputs_done(r->kept);
}

/* Peaks are of the whole life, as making it is part of that. */
void run_usage(struct run *r, struct vessel_usage *out)
{
    r->driver->usage(r->vessel, out);
    out->usage.cpu_user_ms -= r->before.usage.cpu_user_ms;
    out->usage.cpu_system_ms -= r->before.usage.cpu_system_ms;
    out->usage.throttled_ms -= r->before.usage.throttled_ms;
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

static int join_network(struct run *r, struct vial_error *err)
{
    if (network_join(r->engine, r->vessel, r->watch->caller, &r->place, err) == 0)
        return 0;
    close_vessel(r);
    return -1;
}

static void note_create(struct run *r)
{
    run_log_step(
        &r->log, "create",
        json_pack("{s:s, s:s?}", "driver", r->driver->name, "image", r->plan->image));
}

static void note_start(struct run *r)
{
    run_log_step(&r->log, "start",
                 json_pack("{s:s, s:f}", "vessel", r->vessel->id, "ms",
                           clock_ms_between(r->started_ns, r->opened_ns)));
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
    if (r->log.on)
        note_create(r);
    if ((!take_vessel(r) && open_cold(r, err) < 0) || join_network(r, err) < 0)
        return -1;
    r->opened_ns = clock_now_ns();
    if (r->log.on)
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
    fresh.log = r->log;
    fresh.result = r->result;
    (void)memcpy(fresh.correlation, r->correlation, sizeof(fresh.correlation));
    fresh.driver = r->driver;
    fresh.plan = ptr_take(&r->plan);
    fresh.assumed = r->assumed;
    free(r->files); /* none has come */
    run_done(r);
    *r = fresh;
    if (open_cold(r, err) < 0 || join_network(r, err) < 0)
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
    else if (!given && r->log.on)
        sys_make_id('q', r->correlation);
}

void run_note_exec(struct run *r)
{
    run_log_step(&r->log, "exec",
                 json_pack("{s:s}", "stage", run_is_compiling(r) ? "compile" : "run"));
}

static void note_exit(struct run *r, const struct vial_result *result)
{
    if (result->vessel_id[0])
        run_log_step(&r->log, "exit",
                     json_pack("{s:s, s:i, s:f}", "verdict",
                               vial_verdict_name(result->verdict), "exit_code",
                               result->exit_code, "ms",
                               clock_ms_between(r->opened_ns, r->ended_ns)));
}

static void note_end(struct run *r, const struct vial_result *result)
{
    if (result->vessel_id[0]) {
        run_log_step(&r->log, "remove",
                     json_pack("{s:s, s:f}", "vessel", result->vessel_id, "ms",
                               result->timing.close_ms));
    }
    if (result->error.code[0])
        run_log_step(&r->log, "error", json_pack("{s:s}", "code", result->error.code));
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
    if (e->journal)
        run_log_begin(&r.log, e->settings);
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
    if (r.log.on)
        note_exit(&r, result);
    finish(&r, result);
    result_settle(result);
    speak_as_preset(&r, req, result);
    record_end(&r, req, result);
    if (r.log.on) {
        note_end(&r, result);
        run_log_end(&r.log, title_of(req), result);
    }
}
