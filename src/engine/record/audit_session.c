/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/record/audit_session.h"

#include <unistd.h>

#include "base/fail.h"
#include "base/json.h"
#include "engine/record/audit_run.h"
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

static json_t *of_exec(const struct vial_exec *x, const char *correlation)
{
    json_t *detail = of_session(x->session);

    if (detail)
        (void)json_object_set_new(detail, "exec", json_integer((json_int_t)x->number));
    if (detail && correlation)
        (void)json_object_set_new(json_object_get(detail, "caller"), "correlation",
                                  json_string(correlation));
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
    detail = of_exec(x, x->correlation);
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
        record_refused(x->session->engine, of_exec(x, x->correlation),
                       st->network_refused);
    detail = of_exec(x, x->correlation);
    if (detail) {
        (void)json_object_set_new(detail, "verdict",
                                  json_string(vial_verdict_name(st->verdict)));
        (void)json_object_set_new(detail, "exit_code", json_integer(st->exit_code));
        (void)json_object_set_new(detail, "duration_ms", json_real(st->duration_ms));
        (void)json_object_set_new(detail, "stdout_bytes",
                                  json_integer((json_int_t)x->spool[0].end));
        (void)json_object_set_new(detail, "stderr_bytes",
                                  json_integer((json_int_t)x->spool[1].end));
    }
    (void)record_event(x->session->engine, "exec.end", detail, NULL);
}

static json_t *of_cell(const struct recorded_cell *cell)
{
    json_t *detail = of_exec(cell->exec, cell->correlation);

    if (!detail)
        return NULL;
    (void)json_object_set_new(detail, "cell", json_integer((json_int_t)cell->number));
    (void)json_object_set_new(detail, "language", json_string(cell->language));
    record_add_code(cell->exec->session->engine, cell->code, cell->len, detail);
    return detail;
}

int record_cell_begin(const struct recorded_cell *cell, struct vial_error *err)
{
    struct vial_engine *e = cell->exec->session->engine;

    if (!e->audit)
        return 0;
    if (audit_reserve(e->audit, 1, err) < 0)
        return -1;
    return record_event(e, "cell.begin", of_cell(cell), err);
}

void record_cell_end(const struct recorded_cell *cell, const struct cell_end *end)
{
    struct vial_engine *e = cell->exec->session->engine;
    json_t *detail;

    if (!e->audit)
        return;
    detail = of_cell(cell);
    if (detail) {
        (void)json_object_set_new(detail, "outcome", json_string(end->outcome));
        (void)json_object_set_new(detail, "duration_ms", json_real(end->duration_ms));
        (void)json_object_set_new(detail, "stdout_bytes",
                                  json_integer((json_int_t)end->out_bytes));
        (void)json_object_set_new(detail, "stderr_bytes",
                                  json_integer((json_int_t)end->err_bytes));
        if (end->error)
            (void)json_object_set_new(detail, "error", error_json(end->error));
    }
    (void)record_event(e, "cell.end", detail, NULL);
}

int record_commit_begin(struct vial_session *s, struct vial_error *err)
{
    return s->engine->audit ? audit_reserve(s->engine->audit, 1, err) : 0;
}

void record_commit_end(struct vial_session *s, const struct vial_commit_report *done,
                       const struct vial_error *why)
{
    json_t *detail = s->engine->audit ? of_session(s) : NULL;

    if (detail && why)
        (void)json_object_set_new(detail, "error", error_json(why));
    else if (detail)
        (void)json_object_set_new(detail, "changes",
                                  json_pack("{s:I, s:I, s:I}", "added",
                                            (json_int_t)done->added, "modified",
                                            (json_int_t)done->modified, "deleted",
                                            (json_int_t)done->deleted));
    if (detail)
        (void)json_object_set_new(detail, "outcome",
                                  json_string(why ? "failed" : "completed"));
    (void)record_event(s->engine, "workspace.commit", detail, NULL);
}
