/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/record/audit_events.h"
#include "engine/run/network_account.h"
#include "engine/session/file_bytes.h"
#include "model/result.h"
#include "workspace/workspace.h"

#include "vial/files.h"
#include "vial/session.h"
#include "vial/workspace.h"

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

/* Whoever keeps its vessel may know how long it is needed. With the lock held. */
static int check_stay(const struct vial_session *s, int64_t until_ns,
                      struct vial_error *err)
{
    int64_t end_ns = s->vessel ? s->vessel->until_ns : 0;

    if (end_ns == 0 || until_ns <= end_ns)
        return 0;
    (void)fail(err, VIAL_E_CAP,
               "renew session '%s': its vessel ends in %.0f ms, whatever its lease",
               s->report.id, clock_ms_between(clock_now_ns(), end_ns));
    return fail_remedy(err, "renew it for less, or open another session");
}

int vial_session_renew(struct vial_session *session, int64_t lease_ms,
                       struct vial_error *err)
{
    int64_t now_ns;
    int64_t end_ns;
    int rc;

    if (session_check_number("lease_ms", lease_ms, SESSION_LONGEST_MS, err) < 0)
        return -1;
    session_lock(session);
    /* Of one that is paused the clock stands still, and goes on from here. */
    now_ns = session->paused_ns ? session->paused_ns : clock_now_ns();
    end_ns = now_ns + (lease_ms ? lease_ms : session->options.lease_ms) * 1000000;
    rc = session->outcome == VIAL_SESSION_OPEN ? check_stay(session, end_ns, err)
                                               : session_fail_ended(session, err);
    if (rc == 0) {
        session->active_ns = now_ns;
        session->lease_ns = end_ns;
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
    out->paused = s->paused_ns && s->outcome == VIAL_SESSION_OPEN;
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
    if (grace_ms > 0 && s->paused_ns && s->outcome == VIAL_SESSION_OPEN &&
        session_resume(s, NULL) < 0)
        grace_ms = 0; /* programs that cannot go on cannot end by themselves */
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

#define COUNT_MAX   256u
#define IMAGE_MAX   (UINT64_C(4) << 20)
#define INLINED_MAX (UINT64_C(16) << 20) /* of all images together */

/* The content of an image, unless it is too large or has changed since. */
static void add_image(struct vial_session *s, const char *dir, const char *name,
                      struct vial_artifact *a, uint64_t *inlined)
{
    auto_free char *path = NULL;
    size_t got = 0;
    char *data = NULL;

    if (!str_starts(a->media, "image/") || a->size > IMAGE_MAX ||
        *inlined + a->size > INLINED_MAX)
        return;
    path = files_join(str_eq(dir, ".") ? "" : dir, name);
    if (!path || vial_session_get(s, path, 0, a->size + 1, &data, &got, NULL) < 0)
        return;
    if (got != a->size) {
        free(data);
        return;
    }
    a->data = data;
    *inlined += a->size;
}

int vial_session_artifacts(struct vial_session *session, const char *path,
                           const struct vial_entries *before, char **json,
                           struct vial_error *err)
{
    struct vial_entries found = { 0 };
    auto_json json_t *list = NULL;
    uint64_t inlined = 0;

    if (vial_session_changes(session, path, before, &found, err) < 0)
        return -1;
    list = json_array();
    for (size_t i = 0; i < found.count && i < COUNT_MAX; i++) {
        struct vial_entry *e = &found.items[i];
        struct vial_artifact a = { .path = e->path,
                                   .media = e->media,
                                   .size = e->size };

        memcpy(a.sha256, e->sha256, sizeof a.sha256);
        add_image(session, path, e->path, &a, &inlined);
        (void)json_array_append_new(list, artifact_json(&a));
        free(a.data);
    }
    *json = json_array_size(list) == (found.count < COUNT_MAX ? found.count : COUNT_MAX)
                ? json_dumps(list, JSON_COMPACT)
                : NULL;
    vial_entries_free(&found);
    return *json ? 0 : fail_memory(err);
}

/* The workspace, which stays until the session is freed. NULL: there is none. */
static struct workspace *find(struct vial_session *s, struct vial_error *err)
{
    if (s->workspace)
        return s->workspace;
    (void)fail(err, VIAL_E_WORKSPACE, "session '%s' has no overlay workspace",
               s->report.id);
    (void)fail_remedy(err, "open it with 'workspace' and 'workspace_mode: overlay'");
    return NULL;
}

/* While it is open, an asking counts as activity; after its end it does no harm. */
static void touch(struct vial_session *s)
{
    struct vial_error ignored = { 0 };

    session_lock(s);
    (void)session_touch(s, &ignored);
    session_unlock(s);
}

/* Contexts may wait for their next cell meanwhile. */
static int check_still(struct vial_session *s, struct vial_error *err)
{
    unsigned running = 0;
    int rc = 0;

    session_lock(s);
    rc = session_touch(s, err);
    for (const struct vial_exec *x = s->execs; x; x = x->next)
        running += x->channel && !x->lasting;
    session_unlock(s);
    if (rc < 0 || running == 0)
        return rc;
    (void)fail(err, VIAL_E_BUSY, "%u programs of session '%s' are running", running,
               s->report.id);
    return fail_remedy(err, "wait until they have ended, or end them");
}

int vial_session_diff(struct vial_session *session,
                      const struct vial_diff_options *options, struct vial_changes *out,
                      struct vial_error *err)
{
    struct workspace *w = find(session, err);

    if (!w)
        return -1;
    touch(session);
    return workspace_diff(w, options, out, err);
}

int vial_session_commit(struct vial_session *session,
                        const struct vial_commit_options *options,
                        struct vial_commit_report *out, struct vial_error *err)
{
    struct workspace *w = find(session, err);
    struct vial_commit_report done = { 0 };
    struct vial_error why = { 0 };
    int rc;

    if (!w || record_commit_begin(session, err) < 0)
        return -1;
    touch(session);
    rc = workspace_commit(w, options, &done, &why);
    record_commit_end(session, &done, rc < 0 ? &why : NULL);
    if (rc == 0 && out)
        *out = done;
    if (rc < 0 && err)
        *err = why;
    return rc;
}

int vial_session_discard(struct vial_session *session, struct vial_error *err)
{
    struct workspace *w = find(session, err);

    if (!w || check_still(session, err) < 0)
        return -1;
    return workspace_restore(w, NULL, err);
}

int vial_session_checkpoint(struct vial_session *session, const char *name,
                            struct vial_error *err)
{
    struct workspace *w = find(session, err);

    if (!w || check_still(session, err) < 0)
        return -1;
    return workspace_save(w, name, err);
}

int vial_session_rollback(struct vial_session *session, const char *name,
                          struct vial_error *err)
{
    struct workspace *w = find(session, err);

    if (!w || check_still(session, err) < 0)
        return -1;
    return workspace_restore(w, name, err);
}

int vial_session_checkpoints(struct vial_session *session, char **json,
                             struct vial_error *err)
{
    struct workspace *w = find(session, err);
    auto_strv struct strv names = { 0 };
    auto_json json_t *list = json_array();

    if (!w)
        return -1;
    workspace_points(w, &names);
    for (size_t i = 0; i < names.count; i++)
        (void)json_array_append_new(list, json_string(names.items[i]));
    *json = strv_ok(&names) && list ? json_dumps(list, JSON_COMPACT) : NULL;
    return *json ? 0 : fail_memory(err);
}

const char *inside_file_name(const struct vial_session *session, const char *path)
{
    if (path_is_beneath(path, session->plan->workdir))
        path += strlen(session->plan->workdir) +
                (path[strlen(session->plan->workdir)] != 0);
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    return path;
}

int inside_load(struct vial_session *session, struct inside_load *out,
                struct vial_error *err)
{
    struct vessel_usage u = { 0 };
    int rc = 0;

    session_lock(session);
    if (session->outcome != VIAL_SESSION_OPEN)
        rc = session_fail_ended(session, err);
    else if (session->driver->usage_now)
        session->driver->usage_now(session->vessel, &u);
    else
        session->driver->usage(session->vessel, &u);
    session_unlock(session);
    *out = (struct inside_load){ .cpu_ms = u.usage.cpu_user_ms + u.usage.cpu_system_ms,
                                 .memory_bytes = u.memory_now_bytes,
                                 .cache_bytes = u.memory_cache_bytes };
    return rc;
}

void inside_touch(struct vial_session *session)
{
    struct vial_error ended;

    session_lock(session);
    (void)session_touch(session, &ended);
    session_unlock(session);
}

int vial_session_allow(struct vial_session *session, const char *const *entries,
                       size_t count, struct vial_error *err)
{
    auto_strv struct strv asked = { 0 };
    int rc = -1;

    for (size_t i = 0; i < count; i++)
        strv_push(&asked, entries[i]);
    if (!strv_ok(&asked))
        return fail_memory(err);
    session_lock(session);
    if (session_touch(session, err) == 0)
        rc =
            network_allow(session->engine->settings, session->plan,
                          session->vessel ? session->vessel->gate_fd : -1, &asked, err);
    session_unlock(session);
    return rc;
}

int vial_session_connect(struct vial_session *session, unsigned port, int *fd,
                         struct vial_error *err)
{
    int rc = -1;

    session_lock(session);
    if (session_touch(session, err) == 0)
        rc = network_connect(session->vessel ? session->vessel->gate_fd : -1, port, fd,
                             err);
    session_unlock(session);
    return rc;
}
