/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "engine/session/session.h"

#include "vial/session.h"

const char *vial_outcome_name(enum vial_outcome outcome)
{
    static const char *const names[] = { "open", "completed", "failed", "expired" };

    return (unsigned)outcome < sizeof names / sizeof *names ? names[outcome] : "?";
}

int vial_session_open(struct vial_engine *engine, const struct vial_request *req,
                      const struct vial_session_options *options,
                      struct vial_session **out, struct vial_error *err)
{
    return session_open(engine, req, options, false, out, err);
}

int vial_session_renew(struct vial_session *session, int64_t lease_ms,
                       struct vial_error *err)
{
    int rc;

    if (session_check_number("lease_ms", lease_ms, SESSION_LONGEST_MS, err) < 0)
        return -1;
    session_lock(session);
    rc = session_touch(session, err);
    if (rc == 0) {
        int64_t ms = lease_ms ? lease_ms : session->options.lease_ms;

        session->lease_ns = clock_now_ns() + ms * 1000000;
        if (session->lease_ns < session->wakes_ns)
            session_wake(session);
    }
    session_unlock(session);
    return rc;
}

/* With the lock held. */
static void report(const struct vial_session *s, struct vial_session_report *out)
{
    *out = s->report;
    out->outcome = s->outcome;
    out->error = s->error;
    out->duration_ms =
        clock_ms_between(s->opened_ns, s->gone ? s->ended_ns : clock_now_ns());
}

void vial_session_look(struct vial_session *session, struct vial_session_report *out)
{
    struct vessel_usage u = { 0 };

    session_lock(session);
    if (session->outcome == VIAL_SESSION_OPEN) {
        session->driver->usage(session->vessel, &u);
        session->report.usage = u.usage;
    }
    report(session, out);
    session_unlock(session);
}

bool vial_session_ended(struct vial_session *session, struct vial_session_report *out)
{
    bool ended;

    if (!session_try_lock(session))
        return false;
    ended = session->outcome != VIAL_SESSION_OPEN && session->gone;
    if (ended)
        report(session, out);
    session_unlock(session);
    return ended;
}

/* GRACE_MS 0 ends the patience of those who began to close it, too. */
static void close_session(struct vial_session *s, enum vial_outcome outcome,
                          int64_t grace_ms)
{
    session_lock(s);
    if (grace_ms == 0)
        s->stop_ns = 0;
    else if (s->outcome == VIAL_SESSION_OPEN && s->talk.link)
        s->stop_ns = clock_now_ns() + grace_ms * 1000000;
    session_end(s, outcome == VIAL_SESSION_FAILED ? outcome : VIAL_SESSION_COMPLETED,
                NULL);
    while (!s->gone)
        (void)session_wait(s, SESSION_NEVER);
    session_unlock(s);
}

void vial_session_close(struct vial_session *session, enum vial_outcome outcome)
{
    close_session(session, outcome, session->plan ? session->plan->stop_ms : 0);
}

void vial_session_kill(struct vial_session *session, enum vial_outcome outcome)
{
    close_session(session, outcome, 0);
}

void vial_session_free(struct vial_session *session)
{
    if (!session)
        return;
    vial_session_kill(session, VIAL_SESSION_COMPLETED);
    session_free(session);
}
