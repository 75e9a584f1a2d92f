/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/record_session.h"

#include <unistd.h>

#include "base/fail.h"
#include "base/json.h"
#include "engine/record.h"
#include "model/result.h"

/* SESSION is our number for it in every record, LABEL what its caller calls it. */
static json_t *of_session(const struct vial_session *s)
{
    return json_pack("{s:s, s:s*, s:{s:I, s:I, s:s?, s:s?}}", "session", s->report.id,
                     "label", s->plan ? s->plan->label_session : NULL, "caller", "uid",
                     (json_int_t)getuid(), "pid", (json_int_t)getpid(), "name",
                     s->options.caller, "correlation", s->options.correlation);
}

int record_session_begin(struct vial_session *s, struct vial_error *err)
{
    auto_json json_t *own = NULL;
    json_t *detail;

    if (!s->engine->audit)
        return record_event(s->engine, "", NULL, err);
    if (audit_reserve(s->engine->audit, 1, err) < 0)
        return -1;
    detail = json_object();
    own = of_session(s);
    if (!detail || !own)
        return fail_memory(err);
    record_add_plan(s->plan, detail);
    (void)json_object_update(detail, own); /* last: a plan's session is the label */
    return record_event(s->engine, "session.begin", detail, err);
}

void record_session_refused(struct vial_session *s, const struct vial_error *why)
{
    json_t *detail = of_session(s);

    if (detail && why)
        (void)json_object_set_new(detail, "error", error_json(why));
    (void)record_event(s->engine, "session.refused", detail, NULL);
}

void record_session_end(struct vial_session *s)
{
    json_t *detail = of_session(s);

    if (detail) {
        (void)json_object_set_new(detail, "outcome",
                                  json_string(vial_outcome_name(s->outcome)));
        (void)json_object_set_new(detail, "execs",
                                  json_integer((json_int_t)s->report.execs));
        (void)json_object_set_new(detail, "vessel", json_string(s->report.vessel_id));
        (void)json_object_set_new(detail, "level", json_string(s->report.level));
        (void)json_object_set_new(detail, "error", error_json(&s->error));
    }
    (void)record_event(s->engine, "session.end", detail, NULL);
}

static json_t *of_exec(const struct vial_exec *x)
{
    json_t *detail = of_session(x->session);

    if (detail)
        (void)json_object_set_new(detail, "exec", json_integer((json_int_t)x->number));
    if (detail && x->correlation)
        (void)json_object_set_new(json_object_get(detail, "caller"), "correlation",
                                  json_string(x->correlation));
    return detail;
}

int record_exec_begin(struct vial_exec *x, const struct strv *argv,
                      struct vial_error *err)
{
    json_t *detail;

    if (!x->session->engine->audit)
        return 0;
    if (audit_reserve(x->session->engine->audit, 1, err) < 0)
        return -1;
    detail = of_exec(x);
    if (detail)
        (void)json_object_set_new(detail, "argv", record_list(argv));
    return record_event(x->session->engine, "exec.begin", detail, err);
}

void record_exec_end(struct vial_exec *x)
{
    const struct vial_exec_status *st = &x->status;
    json_t *detail;

    if (!x->session->engine->audit)
        return;
    if (st->network_refused)
        record_refused(x->session->engine, of_exec(x), st->network_refused);
    detail = of_exec(x);
    if (detail) {
        (void)json_object_set_new(detail, "verdict",
                                  json_string(vial_verdict_name(st->verdict)));
        (void)json_object_set_new(detail, "exit_code", json_integer(st->exit_code));
        (void)json_object_set_new(detail, "duration_ms", json_real(st->duration_ms));
        (void)json_object_set_new(detail, "stdout_bytes",
                                  json_integer((json_int_t)x->tape[0].end));
        (void)json_object_set_new(detail, "stderr_bytes",
                                  json_integer((json_int_t)x->tape[1].end));
    }
    (void)record_event(x->session->engine, "exec.end", detail, NULL);
}
