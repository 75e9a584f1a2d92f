/* SPDX-License-Identifier: Apache-2.0 */

/* A session's files become an image, while its programs live. The vessel's driver has
 * vial-image do it; we freeze the session while its files are read, and hear how that
 * gets on. */

#include "engine/session/save_files.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "engine/record/audit_events.h"
#include "engine/session/session.h"
#include "images/fetcher.h"
#include "images/snapshot_name.h"
#include "model/result.h"

struct saving {
    struct vial_session *s;
    bool frozen; /* by us, while its files are read */
    bool thaws;
};

/* Until nobody else saves or freezes it. With the lock held. */
static int begin(struct vial_session *s, struct vial_error *err)
{
    while (s->outcome == VIAL_SESSION_OPEN && (s->pausing || s->saving))
        (void)session_wait(s, SESSION_NEVER);
    if (s->outcome != VIAL_SESSION_OPEN)
        return session_fail_ended(s, err);
    if (s->driver->snapshot)
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED, "a session of driver '%s' has no snapshots",
               s->driver->name);
    return fail_remedy(err, "use driver native: '--image NAME --root-mode rw'");
}

/* A vessel without control groups is read as it is: each file by itself. */
static int freeze(struct saving *v, struct vial_error *err)
{
    struct vial_error why = { 0 };

    v->frozen = v->s->paused_ns != 0;
    if (v->frozen || !v->s->driver->pause)
        return 0;
    v->frozen = v->thaws = session_freeze(v->s, false, &why) == 0;
    return v->s->outcome == VIAL_SESSION_OPEN ? 0 : session_fail_ended(v->s, err);
}

static void thaw(struct saving *v)
{
    struct vial_error ignored = { 0 };

    if (v->thaws && v->s->outcome == VIAL_SESSION_OPEN)
        (void)session_resume(v->s, &ignored);
    v->thaws = false;
}

/* The descriptor that vial-image reports by, or -1. With the lock held. */
static int start(struct saving *v, const struct vial_snapshot_options *o,
                 struct vial_error *err)
{
    struct snapshot_order order = { .name = o->name, .config = o->config };
    auto_fd int ours = -1;
    auto_fd int theirs = -1;
    int report[2];

    if (pipe2(report, O_CLOEXEC) < 0)
        return fail_sys(err, "make a pipe");
    ours = report[0];
    theirs = order.report_fd = report[1];
    if (v->s->driver->snapshot(v->s->vessel, &order, err) < 0)
        return -1;
    return fd_take(&ours);
}

static int hear(void *context, const char *layer, const char *status,
                unsigned long long current, unsigned long long total)
{
    struct saving *v = context;

    (void)layer;
    (void)current;
    (void)total;
    if (strcmp(status, "Saved") != 0)
        return 0;
    session_lock(v->s);
    thaw(v);
    session_unlock(v->s);
    return 0;
}

static int save(struct saving *v, const struct vial_snapshot_options *o, json_t **out,
                struct vial_error *err)
{
    struct vial_session *s = v->s;
    const struct vial_pull told = {
        .name = o->name, .cancel_fd = -1, .progress = hear, .context = v
    };
    int report_fd = -1;
    int rc;

    session_lock(s);
    rc = begin(s, err);
    if (rc == 0) {
        s->saving = true;
        rc = freeze(v, err);
        report_fd = rc < 0 ? -1 : start(v, o, err);
        session_unlock(s);
        rc = report_fd < 0 ? -1 : fetcher_hear(report_fd, &told, out, err);
        session_lock(s);
        thaw(v);
        s->saving = false;
        s->active_ns = clock_now_ns();
        s->news = true;
        if (rc < 0 && s->outcome != VIAL_SESSION_OPEN) /* that is why */
            (void)session_fail_ended(s, err);
        session_wake(s);
    }
    session_unlock(s);
    return rc;
}

static json_t *report(const char *name, bool frozen, json_t *image)
{
    return json_pack("{s:s, s:O, s:O, s:O, s:b}", "image", name, "digest",
                     json_object_get(image, "digest"), "id",
                     json_object_get(image, "id"), "size",
                     json_object_get(image, "size"), "frozen", frozen);
}

static int record(struct vial_session *s, const char *name, int64_t began_ns,
                  json_t *image, const struct vial_error *why, struct vial_error *err)
{
    json_t *more =
        json_pack("{s:s, s:s, s:O?, s:o, s:f}", "image", name, "outcome",
                  why ? "failed" : "ok", "digest", json_object_get(image, "digest"),
                  "error", why ? error_json(why) : json_null(), "duration_ms",
                  clock_ms_between(began_ns, clock_now_ns()));

    return record_session_event(s, "session.snapshot", more, err);
}

int save_files(struct vial_session *s, const struct vial_snapshot_options *options,
               json_t **out, struct vial_error *err)
{
    struct saving v = { .s = s };
    int64_t began_ns = clock_now_ns();
    struct vial_error why = { 0 };
    auto_json json_t *image = NULL;
    auto_json json_t *made = NULL;

    if (!options || !options->name || !options->name[0])
        return fail(err, VIAL_E_VALUE, "a snapshot has no name");
    if (policy_check_list(&s->engine->settings->policy, POLICY_ID_snapshots, "snapshot",
                          snapshot_name_forks(options->name) ? "fork" : "save",
                          err) < 0 ||
        record_session_event(s, "session.snapshot.begin",
                             json_pack("{s:s}", "image", options->name), err) < 0)
        return -1;
    if (save(&v, options, &image, &why) == 0) {
        made = report(options->name, v.frozen, image);
        if (!made)
            (void)fail(&why, VIAL_E_INTERNAL, "vial-image does not say what it made");
    }
    if (!made) {
        (void)record(s, options->name, began_ns, image, &why, NULL);
        if (err)
            *err = why;
        return -1;
    }
    if (record(s, options->name, began_ns, image, NULL, err) < 0)
        return -1;
    *out = json_incref(made);
    return 0;
}

int vial_session_snapshot(struct vial_session *session,
                          const struct vial_snapshot_options *options, char **out,
                          struct vial_error *err)
{
    auto_json json_t *report_json = NULL;

    if (save_files(session, options, &report_json, err) < 0)
        return -1;
    *out = json_dumps(report_json, JSON_COMPACT);
    return *out ? 0 : fail_memory(err);
}
