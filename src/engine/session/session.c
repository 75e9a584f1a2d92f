/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/sys.h"
#include "base/thread.h"
#include "engine/record/audit_events.h"
#include "engine/run/network_account.h"
#include "workspace/workspace.h"

#define METER_NS INT64_C(100000000) /* between two looks at the cpu counter */

void session_lock(struct vial_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
}

bool session_try_lock(struct vial_session *s)
{
    return pthread_mutex_trylock(&s->lock) == 0;
}

void session_unlock(struct vial_session *s)
{
    (void)pthread_mutex_unlock(&s->lock);
}

static void tell(struct vial_session *s)
{
    s->news = false;
    (void)pthread_cond_broadcast(&s->changed);
}

static void wake(const struct vial_session *s)
{
    const uint64_t one = 1;

    (void)!write(s->wake_fd, &one, sizeof one);
}

void session_wake(struct vial_session *s)
{
    wake(s);
}

bool session_wait(struct vial_session *s, int64_t until_ns)
{
    struct timespec t = { .tv_sec = until_ns / 1000000000,
                          .tv_nsec = until_ns % 1000000000 };

    if (until_ns == SESSION_NEVER) {
        (void)pthread_cond_wait(&s->changed, &s->lock);
        return true;
    }
    return pthread_cond_timedwait(&s->changed, &s->lock, &t) != ETIMEDOUT;
}

static void set_outcome(struct vial_session *s, enum vial_outcome outcome,
                        const struct vial_error *err)
{
    if (s->outcome != VIAL_SESSION_OPEN)
        return;
    s->outcome = outcome;
    if (err)
        s->error = *err;
    s->news = true;
}

void session_end(struct vial_session *s, enum vial_outcome outcome,
                 const struct vial_error *err)
{
    set_outcome(s, outcome, err);
    tell(s);
    wake(s);
}

int session_fail_ended(const struct vial_session *s, struct vial_error *err)
{
    (void)fail(err, VIAL_E_SESSION, "session '%s' has ended: %s", s->report.id,
               vial_outcome_name(s->outcome));
    if (s->error.code[0])
        (void)fail_cause(err, "%s", s->error.message);
    return fail_remedy(err, "open another session");
}

int session_touch(struct vial_session *s, struct vial_error *err)
{
    s->active_ns = clock_now_ns();
    if (s->outcome != VIAL_SESSION_OPEN)
        return session_fail_ended(s, err);
    return session_check_awake(s, err);
}

void session_flush(struct vial_session *s)
{
    if (s->outcome != VIAL_SESSION_OPEN && s->stop_ns == 0)
        return;
    if (conversation_flush(&s->talk))
        wake(s); /* the thread waits until the rest can be written */
}

/* What its guest reports, all from the thread. */

static struct session_op *find_op(const struct vial_session *s, uint32_t channel)
{
    struct session_op *op = s->ops;

    while (op && op->channel != channel)
        op = op->next;
    return op;
}

static void on_data(void *context, uint32_t channel, int stream, const uint8_t *data,
                    size_t len)
{
    struct vial_session *s = context;
    struct vial_exec *x = exec_find(s, channel);
    struct session_op *op = x ? NULL : find_op(s, channel);

    s->news = true;
    if (op)
        str_add(&op->got, data, len);
    if (!x)
        return;
    exec_output(x, stream, data, len);
}

static void on_started(void *context, uint32_t channel, uint32_t pid)
{
    struct vial_session *s = context;
    struct vial_exec *x = exec_find(s, channel);

    s->news = true;
    if (x)
        x->status.pid = pid;
}

static void on_exited(void *context, uint32_t channel, const struct exit_message *m)
{
    struct vial_session *s = context;
    struct vial_exec *x = exec_find(s, channel);

    s->news = true;
    if (x)
        exec_exited(x, m);
}

static void on_failed(void *context, uint32_t channel, uint32_t step, int error)
{
    struct vial_session *s = context;
    struct vial_exec *x = exec_find(s, channel);

    s->news = true;
    if (x)
        exec_failed(x, step, error);
}

static void on_done(void *context, uint32_t channel, int error, const char *text)
{
    struct vial_session *s = context;
    struct session_op *op = find_op(s, channel);

    (void)text;
    s->news = true;
    if (!op)
        return;
    op->channel = 0;
    op->error = error;
}

static void on_writable(void *context, uint32_t channel)
{
    struct vial_session *s = context;
    struct vial_exec *x = exec_find(s, channel);

    s->news = true;
    if (x && x->input.len > 0)
        exec_feed(x);
}

static void on_lost(void *context, const struct vial_error *why)
{
    struct vial_session *s = context;
    struct vial_error err = { 0 };

    (void)fail(&err, VIAL_E_GUEST, "wait for the guest: it went away");
    if (!why && s->driver->explain && s->outcome == VIAL_SESSION_OPEN)
        s->lost = true; /* that takes a while: it is the session's own thread's to do */
    else
        set_outcome(s, VIAL_SESSION_FAILED, why ? why : &err);
    s->stop_ns = 0; /* there is nobody left to wait for */
    wake(s);        /* this may be a caller's thread: the session's own ends the loop */
}

static void on_wake(void *context, short events)
{
    const struct vial_session *s = context;
    uint64_t count;

    (void)events;
    (void)!read(s->wake_fd, &count, sizeof count);
}

/* Times. */

static void expire(struct vial_session *s, const char *why, int64_t ms)
{
    struct vial_error err = { 0 };

    (void)fail(&err, VIAL_E_SESSION, "session '%s' %s after %lld ms", s->report.id, why,
               (long long)ms);
    set_outcome(s, VIAL_SESSION_EXPIRED, &err);
}

/* The cpu limit is one for all the session's programs together. */
static int64_t check_meter(struct vial_session *s, int64_t now)
{
    struct vessel_usage u = { 0 };
    struct vial_error err = { 0 };
    int64_t limit = s->plan->limits.cpu_ms;

    if (limit == 0 || s->running == 0)
        return SESSION_NEVER;
    if (now < s->meter_ns)
        return s->meter_ns;
    s->meter_ns = now + METER_NS;
    s->driver->usage(s->vessel, &u);
    if (u.usage.cpu_user_ms + u.usage.cpu_system_ms >= (double)limit) {
        (void)fail(&err, VIAL_E_SESSION, "session '%s' used up its cpu_time of %lld ms",
                   s->report.id, (long long)limit);
        s->cpu_spent = true;
        set_outcome(s, VIAL_SESSION_FAILED, &err);
    }
    return s->meter_ns;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool is_asked(const struct vial_session *s)
{
    const struct session_op *op = s->ops;

    while (op && op->passive)
        op = op->next;
    return op;
}

/* All other clocks stand still. */
static int64_t check_pause(struct vial_session *s, int64_t now)
{
    int64_t end_ns = s->paused_ns + s->paused_most_ms * 1000000;

    if (now >= end_ns)
        expire(s, "was paused and ended", s->paused_most_ms);
    return end_ns;
}

/* Does what is due; returns when something is due next. */
static int64_t check_times(struct vial_session *s)
{
    int64_t now = clock_now_ns();
    int64_t next = s->lease_ns;
    int64_t idle_ns = s->active_ns + s->options.idle_ms * 1000000;

    if (s->paused_ns)
        return check_pause(s, now);
    if (now >= s->lease_ns)
        expire(s, "has reached the end of its lease", s->options.lease_ms);
    for (struct vial_exec *x = s->execs; x; x = x->next)
        next = sooner(next, exec_check_time(x, now));
    if (s->running == 0 && !s->held && !is_asked(s)) {
        if (now >= idle_ns)
            expire(s, "was idle and ended", s->options.idle_ms);
        next = sooner(next, idle_ns);
    }
    return sooner(next, check_meter(s, now));
}

/* An earlier waking than needed does no harm, and spares callers the waking of
 * this thread when the deadline they bring is later. */
static void set_alarm(struct vial_session *s, int64_t next)
{
    if (s->wakes_ns <= clock_now_ns() || s->wakes_ns > next)
        s->wakes_ns = next;
    conversation_due(&s->talk, s->wakes_ns);
}

static bool is_over(const struct vial_session *s)
{
    if (s->outcome == VIAL_SESSION_OPEN)
        return s->lost;
    return !s->stopping || clock_now_ns() >= s->stop_ns;
}

/* The conversation goes on until the session has ended, and beyond for as long as its
 * programs may end by themselves. */
static void on_turn(void *context)
{
    struct vial_session *s = context;

    if (s->outcome == VIAL_SESSION_OPEN)
        set_alarm(s, check_times(s));
    else
        conversation_due(&s->talk, s->stop_ns);
    if (s->news)
        tell(s);
    if (is_over(s))
        conversation_stop(&s->talk);
}

static void on_unlock(void *context)
{
    session_unlock(context);
}

static void on_lock(void *context)
{
    session_lock(context);
}

/* Its programs get SIGTERM, and time to end by themselves. Somebody who does not want
 * to wait any more takes STOP_NS away. */
static void ask_to_end(struct vial_session *s)
{
    if (s->driver->stopping) {
        session_unlock(s);
        s->driver->stopping(s->vessel);
        session_lock(s);
    }
    link_stop(s->talk.link);
    s->stopping = true;
    (void)conversation_run(&s->talk, NULL);
    s->stop_ns = 0;
}

/* Others may use the session meanwhile: they wait until it has ended. */
static void explain_loss(struct vial_session *s)
{
    struct vial_error err = { 0 };

    (void)fail(&err, VIAL_E_LOST, "the vessel ended, or the stream to it did");
    (void)fail_remedy(&err, "open another session");
    session_unlock(s);
    s->driver->explain(s->vessel, &err);
    session_lock(s);
    set_outcome(s, VIAL_SESSION_FAILED, &err);
}

static void count_usage(struct vial_session *s)
{
    struct vessel_usage u = { 0 };

    s->driver->usage(s->vessel, &u);
    s->report.usage = u.usage;
}

/* Whatever ended it: nobody but this thread touches the vessel any more. */
/* It is out of everybody's reach before it goes: others look at it under the lock. */
static void destroy_vessel(struct vial_session *s)
{
    struct vessel *vessel = s->vessel;

    session_unlock(s);
    s->driver->kill(vessel);
    session_lock(s);
    conversation_drain(&s->talk);
    count_usage(s);
    s->vessel = NULL;
    s->stop_ns = 0; /* nobody writes to it any more */
    session_unlock(s);
    s->driver->close(vessel);
    network_leave(s->engine, s->options.caller, &s->place);
    session_lock(s);
}

static void end_all(struct vial_session *s)
{
    struct vial_error err = { 0 };

    (void)session_fail_ended(s, &err);
    for (struct vial_exec *x = s->execs; x; x = x->next)
        if (x->channel)
            exec_ended(x, &err);
    for (struct session_op *op = s->ops; op; op = op->next)
        op->channel = 0;
    exec_output_close(s);
}

static int open_vessel(struct vial_session *s, struct vial_error *err)
{
    static const struct conversation_owner owner = {
        .guest = { .started = on_started,
                   .data = on_data,
                   .exited = on_exited,
                   .failed = on_failed,
                   .done = on_done,
                   .writable = on_writable },
        .lost = on_lost,
        .turn = on_turn,
        .unlock = on_unlock,
        .lock = on_lock,
    };
    const struct vessel_order order = { .driver = s->driver,
                                        .plan = s->plan,
                                        .watch = s->options.watch };

    if (engine_vessel(s->engine, &order, &s->vessel, err) < 0 ||
        network_join(s->engine, s->vessel, s->options.caller, &s->place, err) < 0)
        return -1;
    s->workdir =
        strdup(s->vessel->jail.workdir ? s->vessel->jail.workdir : s->plan->workdir);
    if (!s->workdir)
        return fail_memory(err);
    (void)snprintf(s->report.vessel_id, sizeof s->report.vessel_id, "%s",
                   s->vessel->id);
    (void)snprintf(s->report.level, sizeof s->report.level, "%s", s->vessel->level);
    (void)snprintf(s->report.limits_by, sizeof s->report.limits_by, "%s",
                   s->vessel->limits_by);
    if (conversation_begin(&s->talk, s->vessel, NULL, &owner, s, err) < 0)
        return -1;
    (void)loop_add(&s->talk.loop, s->wake_fd, POLLIN, on_wake, s);
    return 0;
}

static void *session_main(void *context)
{
    struct vial_session *s = context;
    struct vial_error err = { 0 };

    session_lock(s);
    if (open_vessel(s, &err) < 0)
        set_outcome(s, VIAL_SESSION_FAILED, &err);
    s->ready = true;
    s->active_ns = clock_now_ns(); /* opening is not being idle */
    tell(s);
    if (s->outcome == VIAL_SESSION_OPEN && conversation_run(&s->talk, &err) < 0)
        set_outcome(s, VIAL_SESSION_FAILED, &err);
    if (s->lost)
        explain_loss(s);
    if (s->vessel && s->stop_ns)
        ask_to_end(s);
    if (s->vessel)
        destroy_vessel(s);
    end_all(s);
    record_session_end(s);
    s->ended_ns = clock_now_ns();
    s->gone = true;
    tell(s);
    session_unlock(s);
    return NULL;
}

struct vial_session *session_new(struct vial_engine *e,
                                 const struct vial_session_options *options,
                                 struct vial_error *err)
{
    struct vial_session *s = calloc(1, sizeof *s);

    if (!s) {
        (void)fail_memory(err);
        return NULL;
    }
    s->engine = e;
    s->options = *options;
    s->place.fd = -1;
    s->options.caller = options->caller ? strdup(options->caller) : NULL;
    s->options.correlation = options->correlation ? strdup(options->correlation) : NULL;
    s->opened_ns = s->active_ns = clock_now_ns();
    s->lease_ns = s->opened_ns + options->lease_ms * 1000000;
    sys_make_id_on(serve_settings_node(&e->settings->serve), 's', s->report.id);
    exec_output_open(s);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&s->lock, NULL);
    thread_cond_init(&s->changed);
    s->gone = true; /* until there is a thread */
    if (s->wake_fd >= 0)
        return s;
    (void)fail_sys(err, "make the session's wake-up descriptor");
    session_free(s);
    return NULL;
}

int session_start(struct vial_session *s, struct vial_error *err)
{
    int rc;

    s->gone = false;
    rc = thread_start(&s->thread, THREAD_STACK, session_main, s);
    if (rc != 0) {
        s->gone = true;
        return fail_sys_rc(err, -rc, "start the session's thread");
    }
    session_lock(s);
    s->report.outcome = VIAL_SESSION_OPEN;
    while (!s->ready)
        (void)session_wait(s, SESSION_NEVER);
    rc = s->outcome == VIAL_SESSION_OPEN ? 0 : -1;
    if (rc < 0 && err)
        *err = s->error;
    session_unlock(s);
    if (rc < 0)
        (void)pthread_join(s->thread, NULL);
    s->ready = rc == 0; /* from here on: there is a thread to join */
    return rc;
}

void session_free(struct vial_session *s)
{
    if (!s)
        return;
    if (s->ready)
        (void)pthread_join(s->thread, NULL);
    while (s->execs) {
        struct vial_exec *x = s->execs;

        s->execs = x->next;
        exec_release(x);
    }
    free((void *)(uintptr_t)s->options.caller);
    free((void *)(uintptr_t)s->options.correlation);
    free(s->workdir);
    workspace_close(s->workspace);
    plan_free(s->plan);
    conversation_end(&s->talk);
    if (s->wake_fd >= 0)
        (void)close(s->wake_fd);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}
