/* SPDX-License-Identifier: Apache-2.0 */
#include "vial/keep.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"
#include "engine/record/audit_events.h"
#include "engine/session/keep_call.h"
#include "engine/session/session.h"
#include "model/language.h"
#include "model/result.h"

#define MAX_CALLS 50
#define IDLE_MS   (INT64_C(10) * 60 * 1000)
#define TURN_MS   50 /* how late a cancellation may be seen by a call that waits */
#define LEASE_MS  (INT64_C(24) * 60 * 60 * 1000)

/* One vessel, as long as calls come to it or are at work in it. */
struct place {
    struct vial_session *session;
    char *image;               /* or NULL */
    unsigned calls;            /* that began here */
    unsigned users;            /* of these still at work */
    bool retired;              /* no more calls come; it ends with the last user */
    bool compiling;            /* somebody makes a program in the working directory */
    bool names[SESSION_EXECS]; /* of program files, that are in use */
};

struct vial_keep {
    struct vial_engine *engine; /* borrowed */
    struct vial_request base;
    struct vial_keep_options options;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    struct place *place; /* where the next call goes, or NULL */
    unsigned left;       /* processes for which the last place was given up, or 0 */
    struct vial_keep_report report;
};

int vial_keep_open(struct vial_engine *engine, const struct vial_request *base,
                   const struct vial_keep_options *options, struct vial_keep **out,
                   struct vial_error *err)
{
    struct vial_keep *k = calloc(1, sizeof(*k));

    if (!k)
        return fail_memory(err);
    (void)pthread_mutex_init(&k->lock, NULL);
    thread_cond_init(&k->changed);
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

static void free_place(struct place *p)
{
    vial_session_free(p->session);
    free(p->image);
    free(p);
}

/* The next call gets another. */
static void retire(struct vial_keep *k, struct place *p)
{
    p->retired = true;
    if (k->place == p) {
        k->place = NULL;
        k->report.vessel_id[0] = '\0';
        k->report.calls = 0;
    }
    if (p->users == 0)
        free_place(p);
}

/* Whether it has ended is seen by whoever touches it: looking would count what it has
 * used, which takes longer than some programs. */
static bool is_usable(const struct vial_keep *k, const struct place *p,
                      const struct plan *plan)
{
    return p->calls < k->options.max_calls && str_eq(p->image, plan->image);
}

/* Calls have their own time-outs; the session's is the most that any may have. */
static int open_session(const struct vial_keep *k, const struct kept_call *c,
                        struct vial_session **out, struct vial_error *err)
{
    auto_request struct vial_request mine = { 0 };
    const struct vial_session_options o = { .idle_ms = k->options.idle_ms,
                                            .lease_ms = LEASE_MS,
                                            .caller = c->watch->caller,
                                            .correlation = c->watch->correlation,
                                            .watch = c->watch };
    const struct plan *plan = c->plan;

    if (request_fill(&mine, &k->base, err) < 0)
        return -1;
    if (plan->image && !mine.image &&
        request_set_text(&mine, FIELD_ID_image, plan->image, strlen(plan->image),
                         "call", err) < 0)
        return -1;
    mine.timeout = policy_cap(&k->engine->settings->policy, FIELD_ID_timeout);
    mine.set |= FIELD_BIT(FIELD_ID_timeout);
    return session_open(k->engine, &mine, &o, true, out, err);
}

static int open_place(struct vial_keep *k, const struct kept_call *c,
                      struct vial_error *err)
{
    const struct plan *plan = c->plan;
    struct place *p = calloc(1, sizeof(*p));
    struct vial_session_report now;

    if (!p)
        return fail_memory(err);
    p->image = plan->image ? strdup(plan->image) : NULL;
    if (plan->image && !p->image) {
        free(p);
        return fail_memory(err);
    }
    if (open_session(k, c, &p->session, err) < 0) {
        free_place(p);
        return -1;
    }
    vial_session_look(p->session, &now);
    (void)snprintf(k->report.vessel_id, sizeof(k->report.vessel_id), "%s",
                   now.vessel_id);
    k->report.vessels++;
    k->place = p;
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

static int ensure_place(struct vial_keep *k, const struct kept_call *c,
                        struct vial_error *err)
{
    struct place *p = k->place;

    if (p && is_usable(k, p, c->plan) && take_hold(p->session))
        return 0;
    if (p)
        retire(k, p);
    return open_place(k, c, err);
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

/* With the lock held. Calls work side by side, but for two that compile: the names of
 * what they make are their language's. */
static int enter(struct vial_keep *k, struct kept_call *c, struct place **out,
                 struct vial_error *err)
{
    bool compiles = c->plan->compile_argv.count > 0;
    struct place *p = NULL;

    while (compiles && k->place && k->place->compiling && !is_given_up(c->watch, err))
        thread_wait(&k->changed, &k->lock, TURN_MS);
    if (is_given_up(c->watch, err) || ensure_place(k, c, err) < 0)
        return -1;
    p = k->place;
    p->calls++;
    p->users++;
    p->compiling = p->compiling || compiles;
    k->report.calls = p->calls;
    c->session = p->session;
    *out = p;
    return 0;
}

/* What did not end by itself may have left anything behind. */
static bool is_spoilt(const struct vial_result *r)
{
    return r->verdict != VIAL_OK && r->verdict != VIAL_NONZERO &&
           r->verdict != VIAL_SIGNAL;
}

/* Whether what earlier calls left going is so much that a call could miss processes of
 * its own. */
static bool is_crowded(const struct place *p, const struct kept_call *c)
{
    return p->users == 0 && c->alive > c->plan->limits.pids / 2;
}

/* With the lock held. */
static void leave(struct vial_keep *k, struct place *p, const struct kept_call *c,
                  bool spoilt)
{
    p->users--;
    if (c->plan->compile_argv.count > 0)
        p->compiling = false;
    (void)pthread_cond_broadcast(&k->changed);
    if (!spoilt && is_crowded(p, c)) {
        k->left = c->alive;
        spoilt = true;
    }
    if (spoilt || (p->retired && p->users == 0))
        retire(k, p);
    else if (p->users == 0)
        let_go(p->session);
}

/* The program's file has a name of its own for as long as another call's has the
 * usual one. The number of that name, or -1 without memory. */
static int take_name(struct place *p, struct plan *plan)
{
    int number = 0;

    while (number < SESSION_EXECS - 1 && p->names[number])
        number++;
    if (number > 0 && plan->compile_argv.count == 0 &&
        plan_rename_code(plan, number + 1) < 0)
        return -1;
    p->names[number] = true;
    return number;
}

/* -1: it came into no vessel. */
static int serve(struct vial_keep *k, struct kept_call *c, struct vial_result *r,
                 struct vial_error *err)
{
    int64_t begun_ns = clock_now_ns();
    struct place *p = NULL;
    int name = -1;
    int rc;

    (void)pthread_mutex_lock(&k->lock);
    rc = enter(k, c, &p, err);
    if (rc == 0) {
        r->renewed = k->left;
        k->left = 0;
        name = take_name(p, c->plan);
    }
    (void)pthread_mutex_unlock(&k->lock);
    r->timing.open_ms = clock_ms_between(begun_ns, clock_now_ns());
    if (rc < 0)
        return -1;
    rc = name < 0 ? fail_memory(err) : kept_call_run(c, r, err);
    if (rc < 0)
        collect_nothing(r, VIAL_FAILED, err);
    (void)pthread_mutex_lock(&k->lock);
    if (name >= 0)
        p->names[name] = false;
    leave(k, p, c, is_spoilt(r));
    (void)pthread_mutex_unlock(&k->lock);
    return 0;
}

/* Nothing ran, for want of a process: what others left has them all. */
static bool found_no_room(const struct vial_result *r)
{
    return r->verdict == VIAL_FAILED && r->error.sys == EAGAIN &&
           fail_is(&r->error, VIAL_E_EXEC);
}

static int complete(const struct vial_keep *k, const struct vial_request *req,
                    struct vial_request *whole, struct vial_error *err)
{
    if (kept_call_check(req, err) < 0 || request_fill(whole, req, err) < 0)
        return -1;
    return request_fill(whole, &k->base, err);
}

static int make_plan(struct vial_keep *k, const struct vial_request *whole,
                     struct plan **out, char wanted[WANTED_SIZE],
                     struct vial_error *err)
{
    const struct driver *driver = NULL;

    if (engine_plan(k->engine, whole, &driver, out, err) < 0)
        return -1;
    engine_wanted(k->engine, whole, driver->name, wanted);
    return 0;
}

/* What a vessel has from its start its calls cannot bring: a language with a seccomp
 * profile or a network of its own would go without. Such a call is on its own. */
static int is_apart(const struct vial_keep *k, const struct plan *plan, bool *apart,
                    struct vial_error *err)
{
    auto_request struct vial_request bare = { 0 };
    auto_plan struct plan *usual = NULL;
    const struct driver *driver = NULL;
    const struct language *l = NULL;

    *apart = false;
    if (!plan->language)
        return 0;
    if (language_find(&k->engine->settings->languages, plan->language, &l, err) < 0)
        return -1;
    if (!l->seccomp_file && !l->seccomp && !l->network)
        return 0;
    if (request_fill(&bare, &k->base, err) < 0 ||
        request_set_text(&bare, FIELD_ID_command, "true", 4, "call", err) < 0 ||
        engine_plan(k->engine, &bare, &driver, &usual, err) < 0)
        return -1;
    *apart = !str_eq(plan->driver, usual->driver) || plan->network != usual->network ||
             !str_eq(plan->seccomp, usual->seccomp) ||
             !str_eq(plan->seccomp_file, usual->seccomp_file);
    return 0;
}

/* A second time where there was no room; that place is given up by then. */
static int run_call(struct vial_keep *k, const struct kept_call *call,
                    struct vial_result **r, struct vial_error *err)
{
    struct kept_call c = *call;
    struct vial_result *again = NULL;
    int rc = serve(k, &c, *r, err);

    if (rc < 0 || !found_no_room(*r))
        return rc;
    again = kept_call_result(c.plan);
    if (!again)
        return fail_memory(err);
    vial_result_free(*r);
    *r = again;
    c = *call;
    rc = engine_reserve(k->engine, c.plan, c.watch, again, err);
    if (rc == 0)
        rc = serve(k, &c, again, err);
    again->renewed = (unsigned)c.plan->limits.pids;
    return rc;
}

/* Not before there is memory for what it may print. */
static int run_paid(struct vial_keep *k, const struct kept_call *call,
                    struct vial_result **r, struct vial_error *err)
{
    int rc = engine_reserve(k->engine, call->plan, call->watch, *r, err);

    if (rc == 0)
        rc = run_call(k, call, r, err);
    result_settle(*r);
    return rc;
}

int vial_keep_run(struct vial_keep *keep, const struct vial_request *req,
                  const struct vial_watch *watch, struct vial_result **out,
                  struct vial_error *err)
{
    static const struct vial_watch nobody = { .cancel_fd = -1, .stdin_fd = -1 };
    auto_request struct vial_request whole = { 0 };
    auto_plan struct plan *plan = NULL;
    struct vial_watch mine = watch ? *watch : nobody;
    struct vial_error why = { 0 };
    struct vial_result *r = NULL;
    char wanted[WANTED_SIZE] = "";
    bool apart = false;
    int rc = complete(keep, req, &whole, &why);
    struct kept_call c = { .watch = &mine };
    struct run told = { .engine = keep->engine, .watch = &mine }; /* for the records */

    if (rc == 0)
        rc = make_plan(keep, &whole, &plan, wanted, &why);
    if (rc == 0)
        rc = is_apart(keep, plan, &apart, &why);
    mine.stdin_fd = -1;
    if (apart)
        return vial_run(keep->engine, &whole, &mine, out, err);
    c.plan = told.plan = plan;
    if (mine.correlation)
        (void)snprintf(told.correlation, sizeof(told.correlation), "%.64s",
                       mine.correlation);
    r = kept_call_result(plan);
    if (!r)
        return fail_memory(err);
    if (rc == 0)
        rc = record_begin(&told, &whole, &why);
    if (rc == 0) {
        engine_announce(c.watch, plan->driver, wanted);
        rc = run_paid(keep, &c, &r, &why);
    }
    (void)snprintf(r->wanted_driver, sizeof(r->wanted_driver), "%s", wanted);
    if (rc < 0)
        collect_nothing(r, judge_refusal(&why), &why);
    record_result(&told, &whole, r);
    *out = r;
    return 0;
}

void vial_keep_look(struct vial_keep *keep, struct vial_keep_report *out)
{
    struct vial_session_report now;

    (void)pthread_mutex_lock(&keep->lock);
    if (keep->place && keep->place->users == 0) {
        vial_session_look(keep->place->session, &now);
        if (now.outcome != VIAL_SESSION_OPEN)
            retire(keep, keep->place);
    }
    *out = keep->report;
    (void)pthread_mutex_unlock(&keep->lock);
}

void vial_keep_close(struct vial_keep *keep)
{
    if (!keep)
        return;
    if (keep->place)
        retire(keep, keep->place);
    request_done(&keep->base);
    (void)pthread_cond_destroy(&keep->changed);
    (void)pthread_mutex_destroy(&keep->lock);
    free(keep);
}
