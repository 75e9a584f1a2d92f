/* SPDX-License-Identifier: Apache-2.0 */

/* A session's files become an image, or another session. */

#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "model/request.h"
#include "serve/bodies.h"
#include "serve/hold.h"
#include "serve/job.h"
#include "serve/route.h"
#include "serve/session_routes.h"

void sessions_snapshot(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct snapshot_body body = { 0 };
    struct vial_error err = { 0 };
    json_t *made = NULL;
    struct gate_pass pass = { 0 };
    int rc;

    if (hold_session(c, &h, &err) < 0 || body_read(c, BODY_snapshot, &body, &err) < 0) {
        call_error(c, &err);
        return;
    }
    /* Reading a root is work like a run, and waits for its turn like one. */
    if (gate_enter(&c->serve->gate, c->caller, web_gone_fd(c->web), &pass, &err) < 0) {
        call_refuse(c, &err, pass.retry_s);
        return;
    }
    rc =
        inside_snapshot(h.session->session, false, c->who.name, body.name, &made, &err);
    gate_leave(&c->serve->gate, &pass, 0);
    if (rc < 0)
        call_error(c, &err);
    else
        call_json(c, 201, made);
}

/* The copy's root is as writable as that of which it is one; who its programs are, its
 * limits and its mounts the caller says anew. */
static int aim(struct vial_request *req, const char *image, struct vial_error *err)
{
    if (request_has(req, image) || request_has(req, rootfs))
        return fail(err, VIAL_E_USAGE, "a fork's image is its session's files");
    if (request_set_text(req, FIELD_ID_image, image, strlen(image), "fork", err) < 0)
        return -1;
    return request_has(req, root_mode)
               ? 0
               : request_set_text(req, FIELD_ID_root_mode, "rw", 2, "fork", err);
}

static int fork_session(struct call *c, struct hold *from, struct vial_request *req,
                        struct vial_session_options *options, struct hold *to,
                        struct vial_error *err)
{
    auto_json json_t *made = NULL;
    struct vial_error ignored = { 0 };
    const char *image;

    if (inside_snapshot(from->session->session, true, c->who.name, "fork", &made, err) <
        0)
        return -1;
    image = json_string_value(json_object_get(made, "image"));
    if (aim(req, image, err) == 0 &&
        registry_start(c->serve->registry, c->who.name, req, options, &to->session,
                       err) == 0)
        return 0;
    (void)inside_snapshot_remove(c->gen->engine, c->who.name, image, &ignored);
    return -1;
}

void sessions_fork(struct call *c)
{
    auto_vial_request struct vial_request *req = NULL;
    auto_hold struct hold from = { 0 };
    auto_hold struct hold to = { .serve = c->serve };
    const struct vial_watch watch = { .cancel_fd = web_gone_fd(c->web),
                                      .stdin_fd = -1,
                                      .caller = c->who.name,
                                      .local_images = true };
    struct vial_session_options options = { .caller = c->who.name,
                                            .correlation = c->id,
                                            .watch = &watch };
    struct vial_error err = { 0 };
    struct gate_pass pass = { 0 };
    int rc;

    if (hold_session(c, &from, &err) < 0 ||
        session_read_start(c, &req, &options, &err) < 0) {
        call_error(c, &err);
        return;
    }
    /* Reading a root is work like a run, and waits for its turn like one. */
    if (gate_enter(&c->serve->gate, c->caller, web_gone_fd(c->web), &pass, &err) < 0) {
        call_refuse(c, &err, pass.retry_s);
        return;
    }
    rc = fork_session(c, &from, req, &options, &to, &err);
    gate_leave(&c->serve->gate, &pass, 0);
    if (rc < 0) {
        call_error(c, &err);
        return;
    }
    metrics_add(&c->serve->metrics, &c->serve->metrics.sessions_started, 1);
    session_answer(c, 201, to.session);
}

void snapshots_remove(struct call *c)
{
    struct vial_error err = { 0 };

    if (inside_snapshot_remove(c->gen->engine, c->who.name, c->params[0], &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}
