/* SPDX-License-Identifier: Apache-2.0 */

/* Watching files: a request that is answered again and again, by the guest. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "engine/session/file_bytes.h"

struct vial_watcher {
    struct files_way way;
    unsigned flags;
    char *path;
    struct str waiting; /* packed events from AT on */
    size_t at;
};

static const char letters[] = "cwrmga"; /* in the order of enum vial_event_kind */

const char *vial_event_name(enum vial_event_kind kind)
{
    static const char *const names[] = { "created", "written", "removed",
                                         "moved",   "gap",     "attributes" };

    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

/* With the lock held: takes over what has come. */
static void take(struct vial_watcher *w)
{
    struct session_op *op = &w->way.op;

    if (w->at == w->waiting.len)
        w->at = w->waiting.len = 0;
    if (op->got.len == 0 || w->waiting.len > 0)
        return;
    str_add(&w->waiting, op->got.data, op->got.len);
    if (op->channel)
        link_consumed(w->way.session->talk.link, op->channel, 1, op->got.len);
    op->got.len = 0;
    session_flush(w->way.session);
}

static bool is_over(const struct vial_watcher *w)
{
    return !w->way.op.channel || w->way.session->outcome != VIAL_SESSION_OPEN;
}

/* 1: there is an event; 0: the time is over; -1: it has ended. */
static int wait_event(struct vial_watcher *w, int64_t until_ns, struct vial_error *err)
{
    struct vial_session *s = w->way.session;
    int rc = 1;

    session_lock(s);
    s->active_ns = clock_now_ns();
    take(w);
    while (rc > 0 && w->waiting.len == 0) {
        if (is_over(w))
            rc = s->outcome == VIAL_SESSION_OPEN ? files_fail(&w->way, err)
                                                 : session_fail_ended(s, err);
        else if (clock_now_ns() >= until_ns)
            rc = 0;
        else
            (void)session_wait(s, until_ns);
        take(w);
    }
    session_unlock(s);
    return w->waiting.failed ? fail_memory(err) : rc;
}

static int read_event(struct vial_watcher *w, struct event_message *m,
                      struct vial_error *err)
{
    struct unpack u = { .data = (const uint8_t *)w->waiting.data + w->at,
                        .len = w->waiting.len - w->at };

    if (event_read(&u, m) < 0) {
        w->at = w->waiting.len;
        return fail(err, VIAL_E_GUEST, "watch '%s': the guest answered nonsense",
                    w->path);
    }
    w->at += u.at;
    return 0;
}

/* What M is to the caller; NULL: nothing. The guest is not trusted to tell only what it
 * was asked for. */
static const char *letter_of(const struct vial_watcher *w,
                             const struct event_message *m)
{
    bool asked = m->kind != 'a' || w->flags & VIAL_WATCH_ATTRIBUTES;

    return asked ? strchr(letters, (int)m->kind) : NULL;
}

int vial_watcher_next(struct vial_watcher *watcher, int64_t timeout_ms,
                      struct vial_event *out, struct vial_error *err)
{
    int64_t until =
        timeout_ms < 0 ? SESSION_NEVER : clock_now_ns() + timeout_ms * 1000000;
    struct event_message m;
    const char *letter;
    int rc;

    do {
        rc = wait_event(watcher, until, err);
        if (rc <= 0)
            return rc;
        if (read_event(watcher, &m, err) < 0)
            return -1;
        letter = letter_of(watcher, &m);
        if (letter) {
            out->kind = (enum vial_event_kind)(letter - letters);
            (void)snprintf(out->path, sizeof out->path, "%s", m.path);
            (void)snprintf(out->from, sizeof out->from, "%s", m.from);
        }
        free(m.path);
        free(m.from);
    } while (!letter);
    return 1;
}

/* The guest's word that nothing is missed from now on. */
static int wait_begun(struct vial_watcher *w, struct vial_error *err)
{
    int64_t until = clock_now_ns() + (int64_t)SESSION_STUCK_MS * 1000000;
    struct event_message m = { 0 };
    int rc = wait_event(w, until, err);

    if (rc == 0)
        return fail(err, VIAL_E_GUEST, "watch '%s': the guest is stuck", w->path);
    if (rc < 0 || read_event(w, &m, err) < 0)
        return -1;
    rc = m.kind == 's' ? 0 : -1;
    free(m.path);
    free(m.from);
    return rc < 0 ? fail(err, VIAL_E_GUEST, "watch '%s': the guest answered nonsense",
                         w->path)
                  : 0;
}

int vial_session_watch(struct vial_session *session, const char *path, unsigned flags,
                       struct vial_watcher **out, struct vial_error *err)
{
    struct watch_message m = { .flags = flags };
    struct vial_watcher *w;

    if (flags > (VIAL_WATCH_DEEP | VIAL_WATCH_ATTRIBUTES))
        return fail(err, VIAL_E_VALUE, "watch '%s': flags %u are not known", path,
                    flags);
    if (files_check_path(session, path, true, err) < 0)
        return -1;
    w = calloc(1, sizeof *w);
    if (!w || !(w->path = files_inside(session, path))) {
        free(w);
        return fail_memory(err);
    }
    w->way = (struct files_way){
        .session = session, .path = w->path, .verb = "watch", .op = { .passive = true }
    };
    w->flags = flags;
    m.path = w->path;
    if (files_enter(&w->way, &(struct files_ask){ .watch = &m }, err) < 0) {
        free(w->path);
        free(w);
        return -1;
    }
    if (wait_begun(w, err) < 0) {
        vial_watcher_free(w);
        return -1;
    }
    *out = w;
    return 0;
}

void vial_watcher_free(struct vial_watcher *watcher)
{
    if (!watcher)
        return;
    files_get_end(&watcher->way);
    str_done(&watcher->waiting);
    free(watcher->path);
    free(watcher);
}
