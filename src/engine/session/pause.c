/* SPDX-License-Identifier: Apache-2.0 */

/* A session that is left for a while: its vessel is frozen, and all its clocks stand
 * still, here and in the guest. */

#include "base/clock.h"
#include "base/fail.h"
#include "engine/session/file_bytes.h"

#define HOLD_MS 5000 /* for the guest to stop its own clocks */

/* The guest's word that no deadline of its own ends a program any more: it may be
 * frozen anywhere from then on. With the lock held. */
static int hold_guest(struct vial_session *s, struct vial_error *err)
{
    struct session_op op = { .passive = true, .next = s->ops };
    int64_t until = clock_now_ns() + (int64_t)HOLD_MS * 1000000;
    struct session_op **at = &s->ops;

    if (link_hold(s->talk.link, true, &op.channel, err) < 0)
        return -1;
    s->ops = &op;
    session_flush(s);
    while (op.channel && s->outcome == VIAL_SESSION_OPEN && session_wait(s, until))
        ;
    while (*at != &op)
        at = &(*at)->next;
    *at = op.next;
    if (s->outcome != VIAL_SESSION_OPEN)
        return session_fail_ended(s, err);
    return op.channel ? fail(err, VIAL_E_BUSY, "pause session '%s': its guest is busy",
                             s->report.id)
                      : 0;
}

/* Nobody waits for its answer. */
static void release_guest(struct vial_session *s)
{
    struct vial_error ignored = { 0 };
    uint32_t channel;

    if (link_hold(s->talk.link, false, &channel, &ignored) == 0)
        session_flush(s);
}

static int64_t later(int64_t moment_ns, int64_t by_ns)
{
    return moment_ns == SESSION_NEVER ? moment_ns : moment_ns + by_ns;
}

static void move_clocks(struct vial_session *s, int64_t by_ns)
{
    s->slept_ns += by_ns;
    s->lease_ns += by_ns;
    s->active_ns += by_ns;
    s->meter_ns += by_ns;
    for (struct vial_exec *x = s->execs; x; x = x->next) {
        x->deadline_ns = later(x->deadline_ns, by_ns);
        x->lost_ns = later(x->lost_ns, by_ns);
        x->read_ns += by_ns;
    }
}

int session_resume(struct vial_session *s, struct vial_error *err)
{
    if (!s->paused_ns)
        return 0;
    if (s->driver->pause(s->vessel, false, false, err) < 0)
        return -1;
    move_clocks(s, clock_now_ns() - s->paused_ns);
    s->paused_ns = 0;
    release_guest(s);
    s->news = true;
    session_wake(s);
    return 0;
}

int64_t session_slept_ns(struct vial_session *s)
{
    int64_t slept_ns;

    session_lock(s);
    slept_ns = s->slept_ns + (s->paused_ns ? clock_now_ns() - s->paused_ns : 0);
    session_unlock(s);
    return slept_ns;
}

int session_check_awake(struct vial_session *s, struct vial_error *err)
{
    while (s->paused_ns && s->saving && s->outcome == VIAL_SESSION_OPEN)
        (void)session_wait(s, SESSION_NEVER);
    if (s->outcome != VIAL_SESSION_OPEN)
        return session_fail_ended(s, err);
    if (!s->paused_ns)
        return 0;
    if (s->wakes_by_use)
        return session_resume(s, err);
    (void)fail(err, VIAL_E_PAUSED, "session '%s' is paused", s->report.id);
    return fail_remedy(err, "resume it first; or pause it so that any use does");
}

static int check(struct vial_session *s, const struct vial_pause_options *o,
                 struct vial_error *err)
{
    if (session_check_number("most_ms", o->most_ms, SESSION_LONGEST_MS, err) < 0)
        return -1;
    if (s->outcome != VIAL_SESSION_OPEN)
        return session_fail_ended(s, err);
    if (s->driver->pause)
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED, "a session of driver '%s' cannot be paused",
               s->driver->name);
    return fail_remedy(err, "use native vessels with control groups, or containers");
}

int session_freeze(struct vial_session *s, bool reclaim, struct vial_error *err)
{
    int rc;

    s->pausing = true;
    rc = hold_guest(s, err);
    if (rc == 0 && s->driver->pause(s->vessel, true, reclaim, err) < 0) {
        release_guest(s);
        rc = -1;
    }
    if (rc == 0)
        s->paused_ns = clock_now_ns();
    s->paused_most_ms = SESSION_LONGEST_MS;
    s->pausing = false;
    s->news = true;
    return rc;
}

int vial_session_pause(struct vial_session *session,
                       const struct vial_pause_options *options, struct vial_error *err)
{
    const struct vial_pause_options o =
        options ? *options : (struct vial_pause_options){ 0 };
    int rc;

    session_lock(session);
    while (session->pausing || session->saving) /* another caller is at it */
        (void)session_wait(session, SESSION_NEVER);
    rc = check(session, &o, err);
    if (rc == 0 && !session->paused_ns)
        rc = session_freeze(session, o.reclaim, err);
    if (rc == 0) {
        session->wakes_by_use = o.auto_resume;
        session->paused_most_ms = o.most_ms ? o.most_ms : SESSION_LONGEST_MS;
    }
    session_wake(session); /* it tells others, and looks at its clocks */
    session_unlock(session);
    return rc;
}

int vial_session_resume(struct vial_session *session, struct vial_error *err)
{
    int rc;

    session_lock(session);
    while (session->saving)
        (void)session_wait(session, SESSION_NEVER);
    rc = session->outcome == VIAL_SESSION_OPEN ? session_resume(session, err)
                                               : session_fail_ended(session, err);
    session->active_ns = clock_now_ns();
    session_unlock(session);
    return rc;
}
