/* SPDX-License-Identifier: Apache-2.0 */

/* From a request to a session whose vessel is open, with its workspace and files. */

#include <inttypes.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/state.h"
#include "engine/record/audit_events.h"
#include "engine/session/session.h"
#include "workspace/workspace.h"

#include "vial/files.h"

#define IDLE_MS   (INT64_C(10) * 60 * 1000)
#define LEASE_MS  (INT64_C(60) * 60 * 1000)
#define RING      (UINT64_C(256) << 10)
#define SPILL     (UINT64_C(256) << 20)
#define RING_MAX  (UINT64_C(64) << 20)
#define SPILL_MAX (UINT64_C(64) << 30)
#define KEPT      (UINT64_C(256) << 20)

int session_check_number(const char *name, int64_t value, int64_t most,
                         struct vial_error *err)
{
    if (value >= 0 && value <= most)
        return 0;
    return fail(err, VIAL_E_VALUE,
                "%s of the session: %" PRId64 " is not in 0 … %" PRId64, name, value,
                most);
}

static int fill_options(const struct vial_session_options *from,
                        struct vial_session_options *o, struct vial_error *err)
{
    *o = from ? *from : (struct vial_session_options){ 0 };
    if (session_check_number("idle_ms", o->idle_ms, SESSION_LONGEST_MS, err) < 0 ||
        session_check_number("lease_ms", o->lease_ms, SESSION_LONGEST_MS, err) < 0)
        return -1;
    if (o->ring_bytes > RING_MAX || o->spill_bytes > SPILL_MAX)
        return fail(err, VIAL_E_VALUE,
                    "the session's ring has at most %" PRIu64
                    " bytes, its spill %" PRIu64,
                    RING_MAX, SPILL_MAX);
    o->idle_ms = o->idle_ms ? o->idle_ms : IDLE_MS;
    o->lease_ms = o->lease_ms ? o->lease_ms : LEASE_MS;
    o->ring_bytes = o->ring_bytes ? o->ring_bytes : RING;
    o->spill_bytes = o->spill_bytes ? o->spill_bytes : SPILL;
    o->kept_bytes = o->kept_bytes ? o->kept_bytes : KEPT;
    return 0;
}

/* A plan needs a program, a session does not: this one is never started. */
static int make_plan(struct vial_session *s, const struct vial_request *req,
                     struct vial_error *err)
{
    auto_request struct vial_request mine = { 0 };

    if (request_fill(&mine, req, err) < 0)
        return -1;
    if (mine.end_on.count > 0)
        return fail(err, VIAL_E_UNSUPPORTED, "'end_on' has no meaning for a session");
    if (request_has(&mine, language) && !request_has(&mine, code)) {
        (void)fail(err, VIAL_E_USAGE, "a session has no 'language'");
        return fail_remedy(err,
                           "leave it out: each program, cell or interpreter in the "
                           "session has its own");
    }
    if (!request_has(&mine, code) && !request_has(&mine, command) &&
        request_set_text(&mine, FIELD_ID_command, "true", 4, "session", err) < 0)
        return -1;
    if (engine_plan(s->engine, &mine, &s->driver, &s->plan, err) < 0 ||
        plan_correlate(s->plan, s->options.correlation, err) < 0)
        return -1;
    /* A lease can be renewed; what the driver was told cannot be changed any more. */
    s->plan->stay_ms = s->options.lease_ms + SESSION_LONGEST_MS;
    (void)snprintf(s->report.driver, sizeof s->report.driver, "%s", s->driver->name);
    engine_wanted(s->engine, &mine, s->driver->name, s->report.wanted_driver);
    return 0;
}

static int put_files(struct vial_session *s, struct vial_error *err)
{
    for (size_t i = 0; i < s->plan->file_count; i++) {
        const struct plan_file *f = &s->plan->files[i];

        if (vial_session_put(s, f->path, f->content.data, f->content.len, f->mode,
                             err) < 0)
            return -1;
    }
    return 0;
}

/* Before the vessel, so that no program has run yet. */
static int open_workspace(struct vial_session *s, struct vial_error *err)
{
    const struct plan_mount *m = s->plan->mounts;
    auto_free char *state = NULL;

    if (s->plan->mount_count == 0 || !m->overlay)
        return 0;
    state = state_path(s->engine->settings->home);
    if (!state) {
        (void)fail(err, VIAL_E_WORKSPACE, "there is no place for vial's own state");
        return fail_remedy(err, "set HOME, or VIAL_STATE to a directory of your own");
    }
    return workspace_open(m->source, m->dev, m->ino, state, &s->workspace, err);
}

static int mount_workspace(struct vial_session *s, struct vial_error *err)
{
    int rc = 0;

    if (!s->workspace)
        return 0;
    session_lock(s);
    if (!s->vessel || !s->vessel->layered) {
        rc = fail(err, VIAL_E_WORKSPACE,
                  "the vessel came without the workspace's layer");
    } else {
        struct upper l = { s->vessel->layer_fd, s->vessel->merged_fd,
                           s->vessel->layer_id };

        rc = workspace_mount(s->workspace, &l, err);
    }
    session_unlock(s);
    return rc;
}

/* A session that was recorded as begun gets an end, even if its thread never ran. */
static void give_up(struct vial_session *s, const struct vial_error *why)
{
    bool ran = s->ready || s->outcome != VIAL_SESSION_OPEN;

    session_lock(s);
    session_end(s, VIAL_SESSION_FAILED, why);
    session_unlock(s);
    if (!ran)
        record_session_end(s);
    vial_session_free(s);
}

int session_open(struct vial_engine *engine, const struct vial_request *req,
                 const struct vial_session_options *options, bool held,
                 struct vial_session **out, struct vial_error *err)
{
    struct vial_session_options o;
    struct vial_session *s;

    if (fill_options(options, &o, err) < 0)
        return -1;
    s = session_new(engine, &o, err);
    if (!s)
        return -1;
    s->held = held;
    if (make_plan(s, req, err) < 0) {
        record_session_refused(s, err);
        vial_session_free(s);
        return -1;
    }
    if (record_session_begin(s, err) < 0) {
        vial_session_free(s);
        return -1;
    }
    if (open_workspace(s, err) < 0 || session_start(s, err) < 0 ||
        mount_workspace(s, err) < 0 || put_files(s, err) < 0) {
        give_up(s, err);
        return -1;
    }
    *out = s;
    return 0;
}
