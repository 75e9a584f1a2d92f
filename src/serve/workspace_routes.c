/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "serve/bodies.h"
#include "serve/hold.h"
#include "serve/route.h"

#include "vial/workspace.h"

void workspaces_diff(struct call *c)
{
    auto_hold struct hold h = { 0 };
    const char *path = web_query(c->web, "path");
    const char *format = web_query(c->web, "format");
    const char *const paths[] = { path, NULL };
    struct vial_diff_options options = { .names_only = call_flag(c, "names"),
                                         .paths = path ? paths : NULL };
    struct vial_changes changes = { 0 };
    struct vial_error err = { 0 };
    auto_free char *text = NULL;

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_diff(h.session->session, &options, &changes, &err) < 0) {
        call_error(c, &err);
        return;
    }
    if (format && strcmp(format, "text") == 0) {
        text = vial_changes_text(&changes);
        if (text)
            call_text(c, 200, "text/x-diff", text, strlen(text));
    } else {
        call_given(c, 200, vial_changes_json(&changes));
    }
    vial_changes_free(&changes);
}

void workspaces_commit(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct commit_body body = { 0 };
    auto_free const char **paths = NULL;
    struct vial_commit_options options = { 0 };
    struct vial_commit_report report;
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 || body_read(c, BODY_commit, &body, &err) < 0 ||
        (body.paths && !(paths = body_texts(body.paths, &err)))) {
        call_error(c, &err);
        return;
    }
    options.paths = paths;
    options.links_out = body.links_out;
    if (vial_session_commit(h.session->session, &options, &report, &err) < 0)
        call_error(c, &err);
    else
        call_json(c, 200,
                  json_pack("{s:I, s:I, s:I}", "added", (json_int_t)report.added,
                            "modified", (json_int_t)report.modified, "deleted",
                            (json_int_t)report.deleted));
}

void workspaces_discard(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_discard(h.session->session, &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

void workspaces_checkpoints(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };
    char *json;

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_checkpoints(h.session->session, &json, &err) < 0)
        call_error(c, &err);
    else
        call_given(c, 200, json);
}

void workspaces_checkpoint(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_checkpoint(h.session->session, c->params[1], &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

void workspaces_rollback(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_rollback(h.session->session, c->params[1], &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}
