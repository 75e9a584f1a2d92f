/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <signal.h>

#include "base/clock.h"
#include "base/fail.h"
#include "engine/session/session.h"

#include "vial/session.h"

static int64_t until(int64_t timeout_ms)
{
    int64_t now = clock_now_ns();

    if (timeout_ms < 0 || timeout_ms > (SESSION_NEVER - now) / 1000000)
        return SESSION_NEVER;
    return now + timeout_ms * 1000000;
}

int vial_session_exec(struct vial_session *session,
                      const struct vial_exec_options *options, struct vial_exec **out,
                      struct vial_error *err)
{
    /* The request may have been let in for its language. */
    if (policy_check_list(&session->engine->settings->policy, POLICY_ID_languages,
                          "language", "command", err) < 0)
        return -1;
    return exec_start(session, options, false, out, err);
}

/* STARTED: that is enough. */
static void wait_for(struct vial_exec *exec, bool started, int64_t timeout_ms,
                     struct vial_exec_status *out)
{
    struct vial_session *s = exec->session;
    int64_t end_ns = until(timeout_ms);

    session_lock(s);
    s->active_ns = clock_now_ns();
    if (timeout_ms != 0 && exec->status.running && s->wakes_by_use &&
        s->outcome == VIAL_SESSION_OPEN)
        (void)session_resume(s, NULL); /* else it waits in vain */
    while (exec->status.running && !(started && exec->status.pid) &&
           clock_now_ns() < end_ns && session_wait(s, end_ns))
        ;
    *out = exec->status;
    out->stdout_bytes = exec->spool[0].end;
    out->stderr_bytes = exec->spool[1].end;
    session_unlock(s);
}

void vial_exec_wait(struct vial_exec *exec, int64_t timeout_ms,
                    struct vial_exec_status *out)
{
    wait_for(exec, false, timeout_ms, out);
}

void vial_exec_wait_started(struct vial_exec *exec, int64_t timeout_ms,
                            struct vial_exec_status *out)
{
    wait_for(exec, true, timeout_ms, out);
}

static int fail_stdin(const struct vial_exec *x, struct vial_error *err)
{
    if (!x->status.running)
        return fail(err, VIAL_E_EXEC, "write to '%s': it has ended", x->program);
    return fail(err, VIAL_E_VALUE,
                "write to '%s': its stdin is not live, or was closed", x->program);
}

int vial_exec_write(struct vial_exec *exec, const void *data, size_t len,
                    int64_t timeout_ms, size_t *taken, struct vial_error *err)
{
    struct vial_session *s = exec->session;
    int64_t end_ns = until(timeout_ms);
    const char *at = data;
    int rc = 0;

    *taken = 0;
    session_lock(s);
    while (rc == 0 && *taken < len) {
        size_t room, left = len - *taken;

        rc = session_touch(s, err);
        if (rc == 0 && !exec->live)
            rc = fail_stdin(exec, err);
        if (rc < 0)
            break;
        room = link_writable(s->talk.link, exec->channel);
        if (room > left)
            room = left;
        link_send(s->talk.link, exec->channel, at + *taken, room);
        *taken += room;
        session_flush(s);
        if (room == 0 && (clock_now_ns() >= end_ns || !session_wait(s, end_ns)))
            break;
    }
    session_unlock(s);
    return rc;
}

int vial_exec_close_stdin(struct vial_exec *exec, struct vial_error *err)
{
    struct vial_session *s = exec->session;
    int rc;

    session_lock(s);
    rc = session_touch(s, err);
    if (rc == 0 && !exec->live)
        rc = fail_stdin(exec, err);
    if (rc == 0) {
        link_send_eof(s->talk.link, exec->channel);
        exec->live = false;
        session_flush(s);
    }
    session_unlock(s);
    return rc;
}

/* Takes the session's lock; fails for one that has ended. */
static int enter_running(struct vial_exec *exec, const char *verb,
                         struct vial_error *err)
{
    session_lock(exec->session);
    if (session_touch(exec->session, err) < 0)
        return -1;
    if (exec->status.running)
        return 0;
    return fail(err, VIAL_E_EXEC, "%s '%s': it has ended", verb, exec->program);
}

static int leave(struct vial_exec *exec, int rc)
{
    if (rc == 0)
        session_flush(exec->session);
    session_unlock(exec->session);
    return rc;
}

int vial_exec_signal(struct vial_exec *exec, int signal, bool whole_tree,
                     struct vial_error *err)
{
    int rc;

    if (signal < 1 || signal > 64)
        return fail(err, VIAL_E_VALUE, "signal %d does not exist", signal);
    rc = enter_running(exec, "signal", err);
    if (rc == 0)
        link_signal(exec->session->talk.link, exec->channel, signal, whole_tree);
    return leave(exec, rc);
}

int vial_exec_resize(struct vial_exec *exec, unsigned rows, unsigned columns,
                     struct vial_error *err)
{
    int rc;

    if (exec_check_size(rows, columns, err) < 0)
        return -1;
    rc = enter_running(exec, "resize the terminal of", err);
    if (rc == 0 && !exec->terminal)
        rc = fail(err, VIAL_E_VALUE, "resize the terminal of '%s': it has none",
                  exec->program);
    if (rc == 0)
        link_resize(exec->session->talk.link, exec->channel, rows << 16 | columns);
    return leave(exec, rc);
}

static int check_read(const struct vial_exec *x, int stream, uint64_t offset,
                      struct vial_error *err)
{
    if (stream != 1 && stream != 2)
        return fail(err, VIAL_E_VALUE, "stream %d is neither 1 nor 2", stream);
    if (offset <= x->spool[stream - 1].end)
        return 0;
    return fail(err, VIAL_E_OFFSET,
                "read stream %d of '%s' from offset %" PRIu64 ": it has %" PRIu64
                " bytes",
                stream, x->program, offset, x->spool[stream - 1].end);
}

/* NOLINTNEXTLINE(readability-function-size): a range, its bytes and a deadline */
int vial_exec_read(struct vial_exec *exec, int stream, uint64_t offset, void *buf,
                   size_t size, int64_t timeout_ms, struct vial_chunk *out,
                   struct vial_error *err)
{
    struct vial_session *s = exec->session;
    int64_t end_ns = until(timeout_ms);
    const struct spool *t;
    uint64_t from;
    bool there;

    session_lock(s);
    s->active_ns = clock_now_ns();
    if (check_read(exec, stream, offset, err) < 0) {
        session_unlock(s);
        return -1;
    }
    t = &exec->spool[stream - 1];
    while (t->end == offset && !t->ended && size > 0 && clock_now_ns() < end_ns &&
           session_wait(s, end_ns))
        ;
    from = offset < t->start ? t->start : offset;
    *out = (struct vial_chunk){ .offset = from, .gap = from - offset };
    out->len = spool_read(t, from, buf, size);
    out->end = t->ended && from + out->len == t->end;
    exec_output_seen(exec, stream, from + out->len);
    there = out->len > 0 || size == 0 || from == t->end;
    session_unlock(s);
    if (!there)
        return fail_sys(err, "read back stream %d of '%s'", stream, exec->program);
    return 0;
}

void vial_exec_follow(struct vial_exec *exec, const uint64_t from[2])
{
    static const uint64_t begins[2] = { 0 };

    session_lock(exec->session);
    exec_output_follow(exec, from ? from : begins);
    session_unlock(exec->session);
}

void vial_exec_unfollow(struct vial_exec *exec)
{
    session_lock(exec->session);
    exec_output_leave(exec);
    session_unlock(exec->session);
}

static void unlink_exec(struct vial_exec *x)
{
    struct vial_exec **at = &x->session->execs;

    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
}

void vial_exec_free(struct vial_exec *exec)
{
    struct vial_session *s;

    if (!exec)
        return;
    s = exec->session;
    session_lock(s);
    if (exec->channel && s->outcome == VIAL_SESSION_OPEN) {
        link_close_channel(s->talk.link, exec->channel);
        session_flush(s);
    }
    if (exec->status.running)
        s->running--;
    unlink_exec(exec);
    exec_release(exec); /* it gives back what it kept to the session */
    session_unlock(s);
}
