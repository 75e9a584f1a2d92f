/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/grade.h"

#include "api/inside.h"
#include "base/fail.h"
#include "base/json.h"
#include "batch/attempt.h"
#include "batch/checker.h"
#include "batch/grade_line.h"
#include "batch/grade_request.h"
#include "batch/row_tests.h"
#include "model/result.h"

int grader_init(struct grader *g)
{
    return pthread_mutex_init(&g->lock, NULL) == 0 ? 0 : -1;
}

void grader_done(struct grader *g)
{
    checkers_done(g);
    (void)pthread_mutex_destroy(&g->lock);
}

/* Whether there is such a language, and the policy allows all of it. */
static int check_plan(struct vial_engine *engine, const struct vial_request *req,
                      struct vial_error *err)
{
    auto_json json_t *plan = NULL;

    return inside_plan(engine, req, &plan, err);
}

static int check_checkers(const struct grader *g, const struct row *row,
                          struct vial_error *err)
{
    const json_t *last = NULL;
    json_t *test;
    size_t i;

    json_array_foreach(row->tests, i, test)
    {
        auto_batch_request struct vial_request *req = NULL;
        json_t *checker = json_object_get(test, "checker");

        if (!checker || checker == last)
            continue;
        if (grade_request_make(g, checker, &req, err) < 0 ||
            (g->engine && check_plan(g->engine, req, err) < 0))
            return fail_in(err, "the checker");
        last = checker;
    }
    return 0;
}

int grade_check(const struct grader *g, const struct row *row, struct vial_error *err)
{
    auto_batch_request struct vial_request *req = NULL;

    if (row->error.code[0]) {
        *err = row->error;
        return -1;
    }
    if (grade_request_make(g, row->fields, &req, err) < 0 ||
        (g->engine && check_plan(g->engine, req, err) < 0))
        return -1;
    return check_checkers(g, row, err);
}

static int run_row(struct grader *g, const struct row *row, json_t *list,
                   struct grade *out, struct vial_error *err)
{
    auto_batch_request struct vial_request *req = NULL;
    auto_batch_request struct vial_request *compiled = NULL;

    if (row->error.code[0]) {
        *err = row->error;
        return -1;
    }
    if (grade_request_make(g, row->fields, &req, err) < 0 ||
        (!row->is_single &&
         grade_request_compile(g, req, &compiled, &out->cpu_ms, err) < 0))
        return -1;
    if (attempt_cancelled(g)) {
        out->cancelled = true;
        return 0;
    }
    return row_tests_run(g, row, compiled ? compiled : req, list, out, err);
}

static void refuse(const struct row *row, const struct vial_error *err,
                   struct grade *out)
{
    out->verdict = VIAL_DENIED;
    out->passed = false;
    out->error = *err;
    (void)json_object_set_new(out->line, "line", json_integer((json_int_t)row->line));
    (void)json_object_set_new(out->line, "error", error_json(err));
}

/* Once: its verdict in OUT, its line in OUT->line. */
static void grade_once(struct grader *g, const struct row *row, struct grade *out)
{
    auto_json json_t *list = json_array();
    struct vial_error err = { 0 };

    *out = (struct grade){ .verdict = VIAL_OK, .passed = true };
    out->line = json_pack("{s:I, s:O}", "index", (json_int_t)row->index, "id", row->id);
    if (!out->line || !list)
        return;
    (void)json_object_update_missing(out->line, row->rest);
    if (run_row(g, row, list, out, &err) < 0)
        refuse(row, &err, out);
    else if (row->is_single)
        (void)json_object_update(out->line, json_array_get(list, 0));
    else
        (void)json_object_set(out->line, "tests", list);
}

/* Again and again; what comes out otherwise than at first makes it flaky. A row that
 * vial failed on is not the program's doing. */
static void repeat(struct grader *g, const struct row *row, struct grade *out)
{
    for (unsigned i = 1; i < g->repeats && !out->cancelled && out->line; i++) {
        struct grade again;

        if (out->verdict == VIAL_DENIED || out->verdict == VIAL_FAILED)
            break;
        grade_once(g, row, &again);
        json_decref(again.line);
        out->cancelled = again.cancelled;
        out->cpu_ms += again.cpu_ms;
        if (again.verdict != VIAL_FAILED)
            out->flaky = out->flaky || again.verdict != out->verdict ||
                         again.passed != out->passed;
    }
    if (g->repeats > 1 && out->line)
        (void)json_object_set_new(out->line, "flaky", json_boolean(out->flaky));
}

void grade_row(struct grader *g, const struct row *row, struct grade *out)
{
    grade_once(g, row, out);
    if (!out->line)
        return;
    repeat(g, row, out);
    (void)json_object_set_new(out->line, "verdict",
                              json_string(vial_verdict_name(out->verdict)));
    (void)json_object_set_new(out->line, "passed", json_boolean(out->passed));
    (void)json_object_set_new(out->line, "attempts", json_integer(out->attempts));
    if (g->humaneval)
        grade_line_humaneval(out);
    (void)json_object_set_new(out->line, "hash", json_string(row->hash));
    if (g->members)
        grade_line_leave_out(g, out->line);
}
