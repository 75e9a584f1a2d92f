/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "engine/record/audit_session.h"
#include "engine/session/session.h"
#include "workspace/workspace.h"

#include "vial/workspace.h"

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
