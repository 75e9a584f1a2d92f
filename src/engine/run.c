/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/sys.h"
#include "model/build.h"
#include "workspace/apply.h"
#include "workspace/state.h"

static const struct vial_watch nobody = { .cancel_fd = -1, .stdin_fd = -1 };

/* Without the guest nothing can run, but all else works: runs say what is
 * missing. */
static int open_guest(const char *share_dir)
{
    auto_free char *path = path_join(share_dir, "vial-init");

    return path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
}

int engine_open(const struct vial_engine_options *options, struct vial_engine **out,
                struct vial_error *err)
{
    static const struct vial_engine_options usual;
    const struct vial_engine_options *o = options ? options : &usual;
    const struct settings_sources from = {
        .preset = o->preset,
        .config = o->config,
        .project_dir = o->project_dir,
        .share_dir = o->share_dir,
        .environ_ = environ,
        .home = getenv("HOME"), /* NOLINT(concurrency-mt-unsafe): read only */
    };
    struct vial_engine *e = calloc(1, sizeof *e);

    if (!e)
        return fail_memory(err);
    e->guest_fd = -1;
    if (settings_load(&from, &e->settings, err) < 0) {
        engine_close(e);
        return -1;
    }
    e->guest_fd = open_guest(e->settings->share_dir);
    *out = e;
    return 0;
}

void engine_close(struct vial_engine *e)
{
    if (!e)
        return;
    if (e->settings)
        settings_free(e->settings);
    if (e->guest_fd >= 0)
        (void)close(e->guest_fd);
    free(e);
}

int engine_plan(struct vial_engine *e, const struct vial_request *req,
                const struct driver **driver, struct plan **out, struct vial_error *err)
{
    auto_request struct vial_request full = { 0 };

    if (admit(e, req, &full, driver, err) < 0)
        return -1;
    return plan_build(&full, e->settings, (*driver)->name, out, err);
}

void run_init(struct run *r, struct vial_engine *e, const struct vial_watch *watch)
{
    *r = (struct run){
        .engine = e,
        .watch = watch ? watch : &nobody,
        .deadline_fd = -1,
        .meter_fd = -1,
        .started_ns = clock_now_ns(),
    };
}

void run_close_vessel(struct run *r)
{
    if (r->vessel)
        r->driver->close(r->vessel);
    r->vessel = NULL;
}

void run_done(struct run *r)
{
    run_close_vessel(r);
    plan_free(r->plan);
    link_free(r->link);
    free(r->buffer);
    auto_fd_(&r->deadline_fd);
    auto_fd_(&r->meter_fd);
    str_done(&r->fetched);
    artifacts_free(r->artifacts);
    output_done(&r->out);
    output_done(&r->err);
}

static int check_guest(const struct vial_engine *e, struct vial_error *err)
{
    if (e->guest_fd >= 0)
        return 0;
    (void)fail(err, VIAL_E_GUEST, "open guest '%s/vial-init'", e->settings->share_dir);
    return fail_remedy(err, "reinstall vial, or set VIAL_SHARE to the directory that "
                            "holds vial-init");
}

/* Whoever works on a tree next finds it whole. */
static int recover_commits(struct vial_engine *e, const struct plan *plan,
                           struct vial_error *err)
{
    auto_free char *state = NULL;

    if (plan->mount_count == 0 || !str_eq(plan->mounts[0].target, "/workspace"))
        return 0;
    state = state_path(e->settings->home);
    return state ? apply_recover(state, plan->mounts[0].source, err) : 0;
}

/* A vessel that is weaker than what was required never runs anything. */
int engine_vessel(struct vial_engine *e, const struct driver *driver,
                  const struct plan *plan, struct vessel **out, struct vial_error *err)
{
    struct vessel *v;

    if (check_guest(e, err) < 0 || recover_commits(e, plan, err) < 0)
        return -1;
    if (driver->open(plan, e->guest_fd, &v, err) < 0) {
        driver_explain(driver, &plan->require, err);
        return -1;
    }
    if (driver_check_required(&plan->require, v->level, &v->layers, v->limits_by, err) <
        0) {
        driver->close(v);
        return -1;
    }
    *out = v;
    return 0;
}

static int open_vessel(struct run *r, struct vial_error *err)
{
    if (engine_vessel(r->engine, r->driver, r->plan, &r->vessel, err) < 0)
        return -1;
    r->opened_ns = clock_now_ns();
    return 0;
}

static void finish(struct run *r, struct vial_result *result)
{
    int64_t end_ns;

    run_close_vessel(r);
    end_ns = clock_now_ns();
    if (r->opened_ns && r->ended_ns) {
        result->timing.open_ms = clock_ms_between(r->started_ns, r->opened_ns);
        result->timing.run_ms = clock_ms_between(r->opened_ns, r->ended_ns);
        result->timing.close_ms = clock_ms_between(r->ended_ns, end_ns);
    }
    result->duration_ms = clock_ms_between(r->started_ns, end_ns);
}

/* The life of one request. Each verb is a file of this folder. */
void engine_run(struct vial_engine *e, const struct vial_request *req,
                const struct vial_watch *watch, struct vial_result *result)
{
    struct vial_error err = { 0 };
    auto_run struct run r;

    run_init(&r, e, watch);
    if (engine_plan(e, req, &r.driver, &r.plan, &err) < 0 ||
        admit_programs(r.driver, r.plan, &err) < 0 || open_vessel(&r, &err) < 0) {
        collect_refusal(&r, &err, result);
    } else {
        supervise(&r);
        collect(&r, result);
    }
    finish(&r, result);
}
