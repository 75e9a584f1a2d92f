/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is kept of the output of a session's programs, who pays for it, and when a
 * program waits for its reader.
 *
 * A stream is kept up to the request's `output_limit`, the newest part of it. All
 * programs of a session together keep options.kept_bytes; the oldest that have ended
 * lose theirs first. The engine's budget holds for all sessions.
 *
 * While somebody follows a program, it gets credit for more output only as they read:
 * they miss nothing, and at most WIRE_CREDIT bytes wait for them. Who reads nothing for
 * a while, or until the program's time is over, is not waited for any more.
 */

#include "base/clock.h"
#include "engine/session/session.h"

#define PATIENCE_NS (INT64_C(20) * 1000000000)
#define LEFT_BYTES  ((size_t)64 << 10) /* of a stream, when the session has ended */
#define LEFT_ALL    ((size_t)1 << 20)  /* of all its streams */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The one that ended first of those that have something. */
static struct vial_exec *oldest(const struct vial_session *s)
{
    struct vial_exec *found = NULL;

    for (struct vial_exec *x = s->execs; x; x = x->next)
        if (!x->status.running && x->followers == 0 &&
            (!spool_is_empty(&x->spool[0]) || !spool_is_empty(&x->spool[1])))
            found = x;
    return found;
}

static bool make_room(struct vial_session *s)
{
    struct vial_exec *x = oldest(s);

    if (!x)
        return false;
    spool_trim(&x->spool[0], 0);
    spool_trim(&x->spool[1], 0);
    return true;
}

static bool take(void *context, enum budget_kind kind, uint64_t bytes)
{
    struct vial_session *s = context;

    do {
        if (s->kept_bytes + bytes <= s->options.kept_bytes &&
            budget_take(s->engine->budget, kind, s->options.caller, bytes)) {
            s->kept_bytes += bytes;
            return true;
        }
    } while (make_room(s));
    return false;
}

static void give(void *context, enum budget_kind kind, uint64_t bytes)
{
    struct vial_session *s = context;

    s->kept_bytes -= bytes;
    budget_give(s->engine->budget, kind, s->options.caller, bytes);
}

void exec_output_open(struct vial_session *s)
{
    s->payer = (struct spool_payer){ .take = take, .give = give, .context = s };
}

void exec_output_init(struct vial_exec *x)
{
    const struct vial_session *s = x->session;
    uint64_t limit = (uint64_t)s->plan->limits.output_bytes;
    uint64_t spill = least(s->options.spill_bytes, limit);

    /* What an interpreter says is read as it comes, or not at all. */
    if (x->lasting || limit <= s->options.ring_bytes)
        spill = 0;
    for (int i = 0; i < 2; i++)
        spool_init(&x->spool[i], (size_t)s->options.ring_bytes, spill, &s->payer);
}

static bool is_followed(const struct vial_exec *x, int i)
{
    return (x->lasting && i == 0) || (x->followers > 0 && !x->given_up);
}

/* Gives the guest credit for what need not be waited for. */
static bool settle(struct vial_exec *x, int i)
{
    struct pace *p = &x->pace[i];
    uint64_t end = x->spool[i].end;
    uint64_t unread = is_followed(x, i) && p->seen < end ? end - p->seen : 0;
    size_t due = p->owed > unread ? p->owed - (size_t)unread : 0;

    if (due == 0 || !x->channel)
        return false;
    p->owed -= due;
    link_consumed(x->session->talk.link, x->channel, i + 1, due);
    return true;
}

void exec_output(struct vial_exec *x, int stream, const uint8_t *data, size_t len)
{
    uint64_t before = x->spool[0].end + x->spool[1].end;
    struct pace *p = &x->pace[stream - 1];

    spool_add(&x->spool[stream - 1], data, len);
    if (x->collected)
        output_add(&x->collected[stream - 1], data, len);
    if (p->owed == 0)
        x->read_ns = clock_now_ns();
    p->owed += len;
    (void)settle(x, stream - 1);
    if (output_allowed(x->session->plan, before, len) < len &&
        x->lost_ns == SESSION_NEVER)
        exec_kill(x, RUN_OUTPUT);
}

/* Its time is over, or it was killed: no reader is waited for any more. */
static bool is_final(const struct vial_exec *x)
{
    return x->overdue || x->lost_ns != SESSION_NEVER;
}

void exec_output_seen(struct vial_exec *x, int stream, uint64_t offset)
{
    struct pace *p = &x->pace[stream - 1];

    if (offset <= p->seen && !x->given_up)
        return;
    x->given_up = is_final(x);
    x->read_ns = clock_now_ns();
    if (offset > p->seen)
        p->seen = offset;
    if (settle(x, stream - 1))
        session_flush(x->session);
}

void exec_output_follow(struct vial_exec *x, const uint64_t from[2])
{
    for (int i = 0; i < 2; i++)
        if (x->followers == 0 || from[i] > x->pace[i].seen)
            x->pace[i].seen = from[i];
    x->read_ns = clock_now_ns();
    x->given_up = is_final(x);
    x->followers++;
}

/* Not before those who follow have read it. */
static void keep_little(struct vial_exec *x)
{
    uint64_t limit = (uint64_t)x->session->plan->limits.output_bytes;

    for (int i = 0; i < 2 && x->followers == 0; i++)
        spool_end(&x->spool[i], (size_t)limit);
}

void exec_output_leave(struct vial_exec *x)
{
    bool more;

    x->followers--;
    if (!x->status.running)
        keep_little(x);
    more = settle(x, 0);
    if (settle(x, 1) || more)
        session_flush(x->session);
}

bool exec_output_release(struct vial_exec *x)
{
    bool more;

    if (x->followers == 0 || x->given_up)
        return false;
    x->given_up = true;
    more = settle(x, 0);
    return settle(x, 1) || more;
}

int64_t exec_output_check(struct vial_exec *x, int64_t now_ns)
{
    if (x->followers == 0 || x->given_up || (!x->pace[0].owed && !x->pace[1].owed))
        return SESSION_NEVER;
    if (now_ns < x->read_ns + PATIENCE_NS)
        return x->read_ns + PATIENCE_NS;
    (void)exec_output_release(x);
    return SESSION_NEVER;
}

void exec_output_end(struct vial_exec *x)
{
    x->spool[0].ended = x->spool[1].ended = true;
    keep_little(x);
}

/* The newest programs first, as they are the ones that somebody may still ask for. */
void exec_output_close(struct vial_session *s)
{
    size_t left = LEFT_ALL;

    for (struct vial_exec *x = s->execs; x; x = x->next)
        for (int i = 0; i < 2; i++) {
            struct spool *t = &x->spool[i];

            spool_trim(t, left < LEFT_BYTES ? left : LEFT_BYTES);
            left -= (size_t)(t->end - t->start);
        }
}
