/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/session_routes.h"

#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/unit.h"
#include "model/result.h"
#include "serve/bodies.h"
#include "serve/hold.h"
#include "serve/job.h"
#include "serve/route.h"

static json_t *usage_json(const struct vial_usage *u)
{
    return json_pack("{s:f, s:f, s:I, s:I}", "cpu_user_ms", u->cpu_user_ms,
                     "cpu_system_ms", u->cpu_system_ms, "memory_peak_bytes",
                     (json_int_t)u->memory_peak_bytes, "pids_peak",
                     (json_int_t)u->pids_peak);
}

static json_t *report_json(const struct vial_session_report *r)
{
    return json_pack("{s:s, s:s, s:b, s:s, s:s, s:s, s:s, s:I, s:f, s:o, s:o}", "id",
                     r->id, "outcome", vial_outcome_name(r->outcome), "paused",
                     r->paused, "driver", r->driver, "vessel_id", r->vessel_id, "level",
                     r->level, "limits_by", r->limits_by, "execs", (json_int_t)r->execs,
                     "duration_ms", r->duration_ms, "usage", usage_json(&r->usage),
                     "error", error_json(&r->error));
}

void session_answer(struct call *c, unsigned status, struct registered *held)
{
    struct vial_session_report report;

    vial_session_look(held->session, &report);
    call_json(c, status, report_json(&report));
}

int session_read_start(struct call *c, struct vial_request **req,
                       struct vial_session_options *options, struct vial_error *err)
{
    struct session_body body = { 0 };
    json_t *rest;

    if (body_read_beside(c, BODY_session, &body, &rest, err) < 0)
        return -1;
    options->idle_ms = body.idle;
    options->lease_ms = body.lease;
    return job_decode(c, rest, req, err);
}

void sessions_start(struct call *c)
{
    auto_vial_request struct vial_request *req = NULL;
    auto_hold struct hold h = { .serve = c->serve };
    const struct vial_watch watch = {
        .cancel_fd = web_gone_fd(c->web),
        .stdin_fd = -1,
        .caller = c->who.name,
        .local_images = !(c->who.scopes & SCOPE_IMAGE),
    };
    struct vial_session_options options = { .caller = c->who.name,
                                            .correlation = c->id,
                                            .watch = &watch };
    struct vial_error err = { 0 };
    struct gate_pass pass = { 0 };

    if (session_read_start(c, &req, &options, &err) < 0) {
        call_error(c, &err);
        return;
    }
    /* Opening a vessel is work like a run, and waits for its turn like one. */
    if (gate_enter(&c->serve->gate, c->caller, web_gone_fd(c->web), &pass, &err) < 0) {
        call_refuse(c, &err, pass.retry_s);
        return;
    }
    if (registry_start(c->serve->registry, c->who.name, req, &options, &h.session,
                       &err) < 0) {
        gate_leave(&c->serve->gate, &pass, 0);
        call_error(c, &err);
        return;
    }
    gate_leave(&c->serve->gate, &pass, 0);
    metrics_add(&c->serve->metrics, &c->serve->metrics.sessions_started, 1);
    call_note(c, "session", h.session->id);
    session_answer(c, 201, h.session);
}

void sessions_list(struct call *c)
{
    bool all = call_flag(c, "all") && (c->who.scopes & SCOPE_ADMIN);

    call_json(c, 200, registry_list(c->serve->registry, all ? NULL : c->who.name));
}

void sessions_get(struct call *c)
{
    struct vial_session_report report;
    struct vial_error err = { 0 };

    call_note(c, "session", c->params[0]);
    if (registry_look(c->serve->registry, c->who.name, c->params[0], &report, &err) < 0)
        call_error(c, &err);
    else
        call_json(c, 200, report_json(&report));
}

void sessions_stop(struct call *c)
{
    struct vial_error err = { 0 };

    call_note(c, "session", c->params[0]);
    if (registry_stop(c->serve->registry, c->who.name, c->params[0], &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

void sessions_renew(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct renew_body body = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 || body_read(c, BODY_renew, &body, &err) < 0 ||
        vial_session_renew(h.session->session, body.lease, &err) < 0)
        call_error(c, &err);
    else
        session_answer(c, 200, h.session);
}

void sessions_allow(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct allow_body body = { 0 };
    auto_free const char **entries = NULL;
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 || body_read(c, BODY_allow, &body, &err) < 0 ||
        !(entries = body_texts(body.allow, &err)) ||
        vial_session_allow(h.session->session, entries, json_array_size(body.allow),
                           &err) < 0)
        call_error(c, &err);
    else
        session_answer(c, 200, h.session);
}

void sessions_pause(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct pause_body body = { 0 };
    struct vial_pause_options options = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 || body_read(c, BODY_pause, &body, &err) < 0) {
        call_error(c, &err);
        return;
    }
    options.auto_resume = str_eq(body.resume, "auto");
    if (body.resume && !options.auto_resume && !str_eq(body.resume, "manual")) {
        (void)fail(&err, VIAL_E_VALUE, "'resume' is not auto or manual");
        call_error(c, &err);
        return;
    }
    options.reclaim = body.reclaim;
    options.most_ms = body.most;
    if (vial_session_pause(h.session->session, &options, &err) < 0)
        call_error(c, &err);
    else
        session_answer(c, 200, h.session);
}

void sessions_resume(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };

    if (hold_session(c, &h, &err) < 0 ||
        vial_session_resume(h.session->session, &err) < 0)
        call_error(c, &err);
    else
        session_answer(c, 200, h.session);
}
