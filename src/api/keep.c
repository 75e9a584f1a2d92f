/* SPDX-License-Identifier: Apache-2.0 */
#include "vial/keep.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/kept_call.h"
#include "api/session.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "engine/output.h"
#include "engine/session.h"

#define MAX_CALLS 50
#define IDLE_MS   (INT64_C(10) * 60 * 1000)
#define LEASE_MS  (INT64_C(24) * 60 * 60 * 1000)

struct vial_keep {
    struct vial_engine *engine; /* borrowed */
    struct vial_request base;
    struct vial_keep_options options;
    pthread_mutex_t lock; /* of all below */
    struct vial_session *session;
    char *image; /* of the session, or NULL */
    struct vial_keep_report report;
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
                       const struct vial_watch *watch, struct vial_error *err)
{
    auto_request struct vial_request mine = { 0 };
    const struct vial_session_options o = { .idle_ms = k->options.idle_ms,
                                            .lease_ms = LEASE_MS,
                                            .watch = watch };
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
                         const struct vial_watch *watch, struct vial_error *err)
{
    if (is_usable(k, plan) && take_hold(k->session))
        return 0;
    drop_vessel(k);
    return open_vessel(k, plan, watch, err);
}

/* What did not end by itself may have left anything behind. */
static bool is_spoilt(const struct vial_result *r)
{
    return r->verdict != VIAL_OK && r->verdict != VIAL_NONZERO &&
           r->verdict != VIAL_SIGNAL;
}

static int serve(struct vial_keep *k, struct kept_call *c, struct vial_result *r,
                 struct vial_error *err)
{
    int64_t begun_ns = clock_now_ns();
    int rc = ensure_vessel(k, c->plan, c->watch, err);

    r->timing.open_ms = clock_ms_between(begun_ns, clock_now_ns());
    if (rc == 0) {
        k->report.calls++;
        c->session = k->session;
        rc = kept_call_run(c, r, err);
    }
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
    if (str_eq(why->code, fail_code_text(VIAL_E_CANCELLED)))
        r->verdict = VIAL_CANCELLED;
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
                     struct plan **out, char wanted[WANTED_SIZE],
                     struct vial_error *err)
{
    auto_request struct vial_request whole = { 0 };
    const struct driver *driver = NULL;

    if (check_fields(req, err) < 0 || request_fill(&whole, req, err) < 0 ||
        request_fill(&whole, &k->base, err) < 0)
        return -1;
    if (engine_plan(k->engine, &whole, &driver, out, err) < 0)
        return -1;
    engine_wanted(k->engine, &whole, driver->name, wanted);
    return 0;
}

/* A call that was cancelled while it waited never begins. */
static bool is_given_up(const struct vial_watch *watch, struct vial_error *err)
{
    struct pollfd cancel = { .fd = watch->cancel_fd, .events = POLLIN };

    if (cancel.fd < 0 || poll(&cancel, 1, 0) <= 0)
        return false;
    (void)fail(err, VIAL_E_CANCELLED, "the caller cancelled the run");
    return true;
}

int vial_keep_run(struct vial_keep *keep, const struct vial_request *req,
                  const struct vial_watch *watch, struct vial_result **out,
                  struct vial_error *err)
{
    static const struct vial_watch nobody = { .cancel_fd = -1, .stdin_fd = -1 };
    auto_plan struct plan *plan = NULL;
    struct kept_call c = { .watch = watch ? watch : &nobody };
    struct vial_result *r = calloc(1, sizeof(*r));
    struct vial_error why = { 0 };
    int rc;

    if (!r)
        return fail_memory(err);
    r->exit_code = -1;
    r->stage = "run";
    rc = make_plan(keep, req, &plan, r->wanted_driver, &why);
    c.plan = plan;
    (void)snprintf(r->id, sizeof(r->id), "%s", plan ? plan->id : "r-0");
    if (rc == 0) {
        engine_announce(c.watch, plan->driver, r->wanted_driver);
        (void)pthread_mutex_lock(&keep->lock);
        rc = is_given_up(c.watch, &why) ? -1 : serve(keep, &c, r, &why);
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
