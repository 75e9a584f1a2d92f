/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
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
#include "engine/record/audit_events.h"
#include "engine/run/fetch_image.h"
#include "engine/run/run.h"
#include "keeper/client/client.h"
#include "model/result.h"
#include "plan/build.h"
#include "workspace/apply.h"

#define TURN_MS 50 /* and as much again at most, between two looks for a place */

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
    maker = (struct plan_driver){ (*driver)->name, (*driver)->wants_image,
                                  (*driver)->takes_image, (*driver)->unheld };
    return plan_build(&full, e->settings, &maker, out, err);
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

    if (e->drivers == kept_drivers || plan->mount_count == 0 ||
        !plan->mounts[0].is_dir || plan->mounts[0].volume)
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
    if ((!o->driver->pull && !o->driver->takes_image) || !o->plan->image ||
        (o->watch && o->watch->local_images))
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
    if (rc < 0 && when == PULL_MISSING && fail_is(&why, VIAL_E_IMAGE))
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
        if (!fail_is(&why, VIAL_E_BUSY) || o->shared || !o->watch ||
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

bool engine_minds(const struct vial_engine *e, const struct driver *driver)
{
    char usual[32];

    request_choice(&e->settings->defaults, FIELD_ID_driver, usual);
    return !driver->far || str_eq(usual, driver->name);
}

bool engine_counts_kills(const struct vessel *vessel)
{
    return str_eq(vessel->limits_by, "cgroup1") || str_eq(vessel->limits_by, "cgroup2");
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
