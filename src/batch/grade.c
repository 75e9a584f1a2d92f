/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/grade.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "model/request.h"
#include "model/result.h"

#define BACKOFF_MS      500
#define CPU_SLACK       10 /* times as long may a program take by the clock … */
#define CPU_SLACK_MS    5000
#define TIMEOUT_MOST_MS INT64_C(86400000)
#define CHECKERS_MOST   64u
#define POINTS          7 /* testlib's exit code for a part of the points */

AUTO(batch_request, struct vial_request, vial_request_free)
#define auto_batch_request __attribute__((cleanup(auto_batch_request_)))
AUTO(batch_result, struct vial_result, vial_result_free)
#define auto_batch_result __attribute__((cleanup(auto_batch_result_)))

int grader_init(struct grader *g)
{
    return pthread_mutex_init(&g->lock, NULL) == 0 ? 0 : -1;
}

void grader_done(struct grader *g)
{
    while (g->checkers) {
        struct grade_checker *next = g->checkers->next;

        vial_request_free(g->checkers->request);
        free(g->checkers);
        g->checkers = next;
    }
    (void)pthread_mutex_destroy(&g->lock);
}

/* What makes two runs of a program alike: its addresses, and what an environment can
 * do. What the row or a flag says, stays. */
static int make_alike(struct vial_request *req, struct vial_error *err)
{
    static const char
        *const fixed[] = { "PYTHONHASHSEED=0",    "PERL_HASH_SEED=0",
                           "PERL_PERTURB_KEYS=0", "TZ=UTC",
                           "LANG=C.UTF-8",        "LC_ALL=C.UTF-8",
                           "VIAL_REQUEST_ID=none" /* a daemon sets it else */ };

    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        size_t name = strcspn(fixed[i], "=") + 1;
        bool given = false;

        for (size_t n = 0; n < req->env.count; n++)
            given = given || strncmp(req->env.items[n], fixed[i], name) == 0;
        if (!given && vial_request_set(req, "env", fixed[i], err) < 0)
            return -1;
    }
    return request_has(req, addresses)
               ? 0
               : vial_request_set(req, "addresses", "fixed", err);
}

/* The time limit counts what the program itself uses, however busy the host is. The
 * clock still ends one that only waits. */
static int limit_by_cpu(struct vial_request *req, struct vial_error *err)
{
    int64_t limit_ms = request_amount(req, FIELD_ID_timeout);
    char text[32];

    if (!request_has(req, timeout) || request_has(req, cpu_time))
        return 0;
    (void)snprintf(text, sizeof(text), "%lldms", (long long)limit_ms);
    if (vial_request_set(req, "cpu_time", text, err) < 0)
        return -1;
    limit_ms = limit_ms * CPU_SLACK + CPU_SLACK_MS;
    (void)snprintf(
        text, sizeof(text), "%lldms",
        (long long)(limit_ms < TIMEOUT_MOST_MS ? limit_ms : TIMEOUT_MOST_MS));
    return vial_request_set(req, "timeout", text, err);
}

static int make_request(const struct grader *g, json_t *asked,
                        struct vial_request **out, struct vial_error *err)
{
    auto_batch_request struct vial_request *req = NULL;

    if (vial_request_new(&req, err) < 0 ||
        request_decode(req, asked, 0, "request", err) < 0 ||
        (g->usual && request_fill(req, g->usual, err) < 0) ||
        (g->by_cpu && limit_by_cpu(req, err) < 0) ||
        (g->deterministic && make_alike(req, err) < 0))
        return -1;
    *out = ptr_take(&req);
    return 0;
}

/* A copy of BASE with MORE fields; lists become longer, the rest is replaced. INPUT, if
 * it is there, is what it reads. */
static int lay_over(const struct vial_request *base, json_t *more,
                    const struct blob *input, struct vial_request **out,
                    struct vial_error *err)
{
    auto_batch_request struct vial_request *req = NULL;

    if (vial_request_new(&req, err) < 0 || request_fill(req, base, err) < 0)
        return -1;
    if (input)
        request_unset(req, FIELD_ID_stdin);
    if (request_decode(req, more, 0, "request", err) < 0 ||
        (input && vial_request_set_bytes(req, "stdin", input->data ? input->data : "",
                                         input->len, err) < 0) ||
        request_join_args(req, err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

static bool is_cancelled(const struct grader *g)
{
    struct pollfd cancelled = { .fd = g->cancel_fd, .events = POLLIN };

    return poll(&cancelled, 1, 0) > 0;
}

/* *OUT: REQ compiled, or NULL when there is nothing to compile or that fails, which
 * its runs will tell. */
static int compile(const struct grader *g, const struct vial_request *req,
                   struct vial_request **out, double *cpu_ms, struct vial_error *err)
{
    const struct vial_watch watch = { .cancel_fd = g->cancel_fd, .stdin_fd = -1 };
    const struct vial_session_options options = { .watch = &watch };

    if (!g->engine || !inside_compiles(g->engine, req))
        return 0;
    return inside_compile(g->engine, req, &options, out, cpu_ms, err);
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
        if (make_request(g, checker, &req, err) < 0 ||
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
    if (make_request(g, row->fields, &req, err) < 0 ||
        (g->engine && check_plan(g->engine, req, err) < 0))
        return -1;
    return check_checkers(g, row, err);
}

/* True: a failure of vial's own, after which another try may go well. */
static bool wait_to_retry(const struct grader *g, const struct vial_result *r,
                          unsigned attempts)
{
    struct pollfd cancelled = { .fd = g->cancel_fd, .events = POLLIN };

    if (r && r->verdict != VIAL_FAILED)
        return false;
    return attempts <= g->retries &&
           poll(&cancelled, 1, BACKOFF_MS << (attempts - 1)) == 0;
}

static int run(const struct grader *g, const struct vial_request *req,
               struct vial_result **out, unsigned *attempts, struct vial_error *err)
{
    struct vial_watch watch = { .cancel_fd = g->cancel_fd, .stdin_fd = -1 };
    int rc;

    *attempts = 0;
    do {
        vial_result_free(ptr_take(out));
        fail_clear(err);
        rc = g->run(g->context, req, &watch, out, err);
        ++*attempts;
    } while (wait_to_retry(g, rc == 0 ? *out : NULL, *attempts));
    return rc;
}

static int add_file(json_t *files, const char *path, const char *data, size_t len,
                    struct vial_error *err)
{
    auto_str struct str coded = { 0 };

    text_base64(&coded, data ? data : "", len);
    if (!str_ok(&coded) ||
        json_array_append_new(files,
                              json_pack("{s:s, s:s}", "path", path, "content_base64",
                                        coded.data ? coded.data : "")) < 0)
        return fail_memory(err);
    return 0;
}

static void hash_fields(json_t *asked, char out[65])
{
    auto_free char *text = json_dumps(asked, JSON_SORT_KEYS | JSON_COMPACT);
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, text ? text : "", text ? strlen(text) : 0);
    sha256_text(&h, out);
}

static int make_checker(struct grader *g, json_t *asked, struct vial_request **out,
                        struct vial_error *err)
{
    auto_batch_request struct vial_request *req = NULL;
    auto_batch_request struct vial_request *compiled = NULL;
    double cpu_ms = 0;

    if (make_request(g, asked, &req, err) < 0 ||
        compile(g, req, &compiled, &cpu_ms, err) < 0)
        return -1;
    *out = compiled ? ptr_take(&compiled) : ptr_take(&req);
    return 0;
}

/* False: no memory. */
static bool keep_checker(struct grader *g, const char *hash, struct vial_request *req)
{
    struct grade_checker *c = calloc(1, sizeof(*c));

    if (!c)
        return false;
    memcpy(c->hash, hash, sizeof(c->hash));
    c->request = req;
    c->next = g->checkers;
    g->checkers = c;
    return true;
}

/* A checker is compiled once for all rows that have the same; those beyond
 * CHECKERS_MOST for each test. *OWN is the caller's to free. */
static const struct vial_request *find_checker(struct grader *g, json_t *asked,
                                               struct vial_request **own,
                                               struct vial_error *err)
{
    const struct vial_request *found = NULL;
    unsigned count = 0;
    char hash[65];

    hash_fields(asked, hash);
    (void)pthread_mutex_lock(&g->lock);
    for (struct grade_checker *c = g->checkers; c; c = c->next) {
        count++;
        if (strcmp(c->hash, hash) == 0)
            found = c->request;
    }
    if (!found && make_checker(g, asked, own, err) == 0) {
        found = *own;
        if (count < CHECKERS_MOST && keep_checker(g, hash, *own))
            *own = NULL;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return found;
}

/* One test that was run. */
struct graded {
    const struct vial_request *req;
    json_t *test, *told;
    const struct vial_result *result;
};

static int checker_files(const struct graded *it, json_t *files, struct vial_error *err)
{
    const struct blob *input = request_peek(it->req, FIELD_ID_stdin);
    auto_blob struct blob answer = { 0 };
    const struct vial_stream *out = &it->result->out;

    if (row_bytes(it->test, "expected", &answer) < 0)
        return fail_memory(err);
    if (add_file(files, "input.txt", input->data, input->len, err) < 0 ||
        add_file(files, "output.txt", out->data, out->len, err) < 0)
        return -1;
    return add_file(files, "answer.txt", answer.data, answer.len, err);
}

/* testlib's conventions: 0 right, 1 and 2 wrong, 7 a part of the points; all else is
 * the checker's own fault. */
static int check(struct grader *g, const struct graded *it, struct vial_error *err)
{
    auto_batch_request struct vial_request *own = NULL;
    const struct vial_request *checker =
        find_checker(g, json_object_get(it->test, "checker"), &own, err);
    auto_batch_request struct vial_request *req = NULL;
    auto_batch_result struct vial_result *said = NULL;
    auto_json json_t *files = json_array();
    auto_json json_t *more = NULL;
    unsigned attempts;

    if (checker_files(it, files, err) < 0)
        return -1;
    more = json_pack("{s:O, s:[s,s,s]}", "files", files, "args", "input.txt",
                     "output.txt", "answer.txt");
    if (!more)
        return fail_memory(err);
    if (!checker || lay_over(checker, more, NULL, &req, err) < 0 ||
        run(g, req, &said, &attempts, err) < 0)
        return fail_in(err, "the checker");
    (void)json_object_set_new(it->told, "checker",
                              json_pack("{s:s, s:i}", "verdict",
                                        vial_verdict_name(said->verdict), "exit_code",
                                        said->exit_code));
    if (said->verdict == VIAL_OK)
        return 1;
    if (said->verdict == VIAL_NONZERO &&
        (said->exit_code <= 2 || said->exit_code == POINTS))
        return 0;
    if (said->error.code[0]) {
        *err = said->error;
        return fail_in(err, "the checker");
    }
    return fail(err, VIAL_E_LOST, "the checker itself failed: %s, exit code %d",
                vial_verdict_name(said->verdict), said->exit_code);
}

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
        return out->truncated ? 0 : check(g, it, err);
    rc = row_bytes(it->test, "expected", &expected);
    if (rc <= 0)
        return rc < 0 ? fail_memory(err) : 1;
    return !out->truncated &&
           compare_equal(&row->compare, out->data ? out->data : "", out->len,
                         expected.data ? expected.data : "", expected.len);
}

/* What of a result stands in the output. */
static void tell_result(const struct grader *g, const struct vial_result *r,
                        json_t *into)
{
    static const char *const always[] = { "verdict",
                                          "stage",
                                          "exit_code",
                                          "signal",
                                          "stdout",
                                          "stderr",
                                          "stdout_base64",
                                          "stderr_base64",
                                          "stdout_truncated",
                                          "stderr_truncated",
                                          "limits_hit",
                                          "error",
                                          "files",
                                          NULL };
    static const char *const times[] = { "duration_ms", "usage", NULL };
    auto_json json_t *all = result_tree(r, false, NULL);

    for (size_t i = 0; always[i]; i++)
        (void)json_object_set(into, always[i], json_object_get(all, always[i]));
    for (size_t i = 0; times[i] && !g->no_times; i++)
        (void)json_object_set(into, times[i], json_object_get(all, times[i]));
    if (json_array_size(json_object_get(into, "files")) == 0)
        (void)json_object_del(into, "files");
}

static void tell_vessel(const struct vial_result *r, json_t *line)
{
    auto_json json_t *all = result_brief(r);

    if (!r->vessel_id[0])
        return;
    (void)json_object_set(line, "driver", json_object_get(all, "driver"));
    (void)json_object_set(line, "isolation", json_object_get(all, "isolation"));
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
        tell_result(g, r, it.told);
        if (!json_object_get(out->line, "driver"))
            tell_vessel(r, out->line);
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
    out->cancelled = out->cancelled || (passed <= 0 && is_cancelled(g));
    if (out->passed && passed <= 0) {
        out->verdict = verdict;
        out->in_compile = r && str_eq(r->stage, "compile");
    }
    out->passed = out->passed && passed > 0;
    return it.told;
}

/* The fields of a test that belong to the run, not to its judgement; its input aside.
 */
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
    if (lay_over(t->base, more, has_input ? &input : NULL, out, err) == 0)
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
    if (!result && run(t->grader, req, &own, &tried.attempts, &tried.error) == 0)
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

/* What is vial's own fault, or may be, is run by itself: that knows what to try again.
 */
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
            &(struct grade_many){ t->base, inputs, &watch, see_result, t });
}

static int run_tests(struct grader *g, const struct row *row,
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

static int run_row(struct grader *g, const struct row *row, json_t *list,
                   struct grade *out, struct vial_error *err)
{
    auto_batch_request struct vial_request *req = NULL;
    auto_batch_request struct vial_request *compiled = NULL;

    if (row->error.code[0]) {
        *err = row->error;
        return -1;
    }
    if (make_request(g, row->fields, &req, err) < 0 ||
        (!row->is_single && compile(g, req, &compiled, &out->cpu_ms, err) < 0))
        return -1;
    if (is_cancelled(g)) {
        out->cancelled = true;
        return 0;
    }
    return run_tests(g, row, compiled ? compiled : req, list, out, err);
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

/* HumanEval's words for how it went. */
static void tell_humaneval(struct grade *out)
{
    const char *verdict = vial_verdict_name(out->verdict);
    bool late = out->verdict == VIAL_TIMEOUT || out->verdict == VIAL_CPU_TIMEOUT;
    json_t *said;

    if (out->passed)
        said = json_string("passed");
    else if (late)
        said = json_string("timed out");
    else
        said = json_sprintf("failed: %s",
                            out->verdict == VIAL_OK ? "wrong answer" : verdict);
    (void)json_object_set_new(out->line, "result", said);
}

/* Whether NAME is ASKED, or the exact bytes of it. */
static bool is_member(const char *name, const char *asked)
{
    size_t len = strlen(asked);

    return strncmp(name, asked, len) == 0 &&
           (name[len] == '\0' || strcmp(name + len, "_base64") == 0);
}

/* Only what was asked for, and what a batch needs to go on. */
static void leave_out(const struct grader *g, json_t *line)
{
    static const char *const needed[] = { "index",  "id",   "verdict",
                                          "passed", "hash", NULL };
    void *at = json_object_iter(line);

    while (at) {
        const char *name = json_object_iter_key(at);
        void *next = json_object_iter_next(line, at);
        bool wanted = false;

        for (size_t i = 0; needed[i]; i++)
            wanted = wanted || strcmp(needed[i], name) == 0;
        for (size_t i = 0; g->members[i]; i++)
            wanted = wanted || is_member(name, g->members[i]);
        if (!wanted)
            (void)json_object_del(line, name);
        at = next;
    }
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
        tell_humaneval(out);
    (void)json_object_set_new(out->line, "hash", json_string(row->hash));
    if (g->members)
        leave_out(g, out->line);
}
