/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/row_tests.h"

#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "batch/attempt.h"
#include "batch/checker.h"
#include "batch/grade_line.h"
#include "batch/grade_request.h"
#include "model/request.h"
#include "model/result.h"

/* What a program that ran well printed: 1: right; 0: wrong; -1: nobody can tell. What
 * was cut is not right. */
static int judge(struct grader *g, const struct row *row, const struct graded *it,
                 struct vial_error *err)
{
    auto_blob struct blob expected = { 0 };
    const struct vial_stream *out = &it->result->out;
    int rc;

    if (it->result->verdict != VIAL_OK)
        return 0;
    if (json_object_get(it->test, "checker"))
        return out->truncated ? 0 : checker_judge(g, it, err);
    rc = row_bytes(it->test, "expected", &expected);
    if (rc <= 0)
        return rc < 0 ? fail_memory(err) : 1;
    return !out->truncated &&
           compare_equal(&row->compare, out->data ? out->data : "", out->len,
                         expected.data ? expected.data : "", expected.len);
}

/* How a test's run went: with RESULT, or not at all. */
struct tried {
    const struct vial_result *result; /* or NULL, because of ERROR */
    unsigned attempts;
    struct vial_error error;
};

/* One test. The row's verdict is that of its first one that is not passed. */
static json_t *tell_test(struct grader *g, const struct row *row,
                         const struct graded *of, const struct tried *tried,
                         struct grade *out)
{
    const struct vial_result *r = tried->result;
    struct graded it = { of->req, of->test, json_object(), r };
    struct vial_error err = r ? r->error : tried->error;
    enum vial_verdict verdict = r ? r->verdict : VIAL_FAILED;
    int passed = 0;

    if (r) {
        grade_line_result(g, r, it.told);
        if (!json_object_get(out->line, "driver"))
            grade_line_vessel(r, out->line);
        out->cpu_ms += r->usage.cpu_user_ms + r->usage.cpu_system_ms;
        out->run_ms += r->duration_ms;
        passed = judge(g, row, &it, &err);
        if (passed < 0)
            verdict = VIAL_FAILED;
    }
    if (verdict == VIAL_FAILED || verdict == VIAL_DENIED) {
        (void)json_object_set_new(it.told, "verdict",
                                  json_string(vial_verdict_name(verdict)));
        (void)json_object_set_new(it.told, "error", error_json(&err));
        out->error = err;
    }
    (void)json_object_set_new(it.told, "passed", json_boolean(passed > 0));
    out->attempts = tried->attempts > out->attempts ? tried->attempts : out->attempts;
    out->cancelled = out->cancelled || (passed <= 0 && attempt_cancelled(g));
    if (out->passed && passed <= 0) {
        out->verdict = verdict;
        out->in_compile = r && str_eq(r->stage, "compile");
    }
    out->passed = out->passed && passed > 0;
    return it.told;
}

/* The fields of a test that belong to the run, not to its judgement; without input. */
static json_t *inputs_of(json_t *test)
{
    static const char *const others[] = { "stdin", "stdin_base64", "expected",
                                          "checker", "expected_base64" };
    json_t *more = json_copy(test);

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        (void)json_object_del(more, others[i]);
    return more;
}

/* A row's tests, in turn. */
struct testing {
    struct grader *grader;
    const struct row *row;
    const struct vial_request *base;
    json_t *list; /* of what came of them */
    struct grade *out;
    size_t next;
};

static int make_test(const struct testing *t, json_t *test, struct vial_request **out,
                     struct vial_error *err)
{
    auto_json json_t *more = inputs_of(test);
    auto_blob struct blob input = { 0 };
    int has_input = row_bytes(test, "stdin", &input);

    if (!more || has_input < 0)
        return fail_memory(err);
    if (grade_request_over(t->base, more, has_input ? &input : NULL, out, err) == 0)
        return 0;
    return t->row->is_single ? -1 : fail_in(err, "test %zu", t->next + 1);
}

/* The next one; RESULT is what came of it elsewhere, or NULL. */
static int next_test(struct testing *t, const struct vial_result *result,
                     struct vial_error *err)
{
    json_t *test = json_array_get(t->row->tests, t->next);
    auto_batch_request struct vial_request *req = NULL;
    auto_batch_result struct vial_result *own = NULL;
    struct tried tried = { .result = result, .attempts = 1 };

    if (make_test(t, test, &req, err) < 0)
        return -1;
    if (!result &&
        attempt_run(t->grader, req, &own, &tried.attempts, &tried.error) == 0)
        tried.result = own;
    (void)json_array_append_new(t->list,
                                tell_test(t->grader, t->row,
                                          &(struct graded){ .req = req, .test = test },
                                          &tried, t->out));
    t->next++;
    return 0;
}

static bool goes_on(const struct testing *t)
{
    return t->next < json_array_size(t->row->tests) && !t->out->cancelled &&
           (t->out->passed || !t->grader->stops);
}

/* What is vial's own fault, or may be, is run by itself: that knows when to retry. */
static bool see_result(void *context, size_t index, struct vial_result *result)
{
    struct testing *t = context;
    auto_batch_result struct vial_result *r = result;
    struct vial_error ignored = { 0 };
    bool is_own = r->verdict == VIAL_FAILED || r->verdict == VIAL_DENIED;

    return index == t->next && goes_on(t) &&
           next_test(t, is_own ? NULL : r, &ignored) == 0 && goes_on(t);
}

/* What the tests have of their own; NULL: they are no inputs of one program. */
static json_t *gather_inputs(const struct testing *t)
{
    auto_json json_t *inputs = json_array();
    json_t *test;
    size_t i;

    json_array_foreach(t->row->tests, i, test)
    {
        auto_blob struct blob input = { 0 };
        int has_input = row_bytes(test, "stdin", &input);
        json_t *args = json_object_get(test, "args");
        json_t *text = has_input > 0
                           ? json_stringn(input.data ? input.data : "", input.len)
                           : NULL;
        json_t *own = json_pack("{s:o*, s:O*}", "stdin", text, "args", args);

        (void)json_array_append_new(inputs, own);
        if (!own || json_object_get(test, "files") || has_input < 0 ||
            (has_input > 0 && !text) || (args && request_has(t->base, args)))
            return NULL;
    }
    return json_incref(inputs);
}

/* So that who runs them compiles once. */
static void run_together(struct testing *t)
{
    const struct vial_watch watch = { .cancel_fd = t->grader->cancel_fd,
                                      .stdin_fd = -1 };
    auto_json json_t *inputs = gather_inputs(t);

    if (inputs)
        t->grader->run_many(
            t->grader->context,
            &(struct grade_many){ t->base, inputs, false, &watch, see_result, t });
}

int row_tests_run(struct grader *g, const struct row *row,
                  const struct vial_request *base, json_t *list, struct grade *out,
                  struct vial_error *err)
{
    struct testing t = { g, row, base, list, out, 0 };

    if (g->run_many && json_array_size(row->tests) > 1 && request_has(base, language))
        run_together(&t);
    while (goes_on(&t))
        if (next_test(&t, NULL, err) < 0)
            return -1;
    return 0;
}
