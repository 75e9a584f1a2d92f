/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/checker.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "batch/attempt.h"
#include "batch/grade_request.h"
#include "model/request.h"
#include "model/result.h"

#define CHECKERS_MOST 64u
#define POINTS        7 /* testlib's exit code for a part of the points */

/* A checker, compiled where its language is, by the hash of its fields. */
struct grade_checker {
    struct grade_checker *next;
    char hash[65];
    struct vial_request *request;
};

void checkers_done(struct grader *g)
{
    while (g->checkers) {
        struct grade_checker *next = g->checkers->next;

        vial_request_free(g->checkers->request);
        free(g->checkers);
        g->checkers = next;
    }
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

/* False: no memory. */
static bool hash_fields(json_t *asked, char out[65])
{
    auto_free char *text =
        json_dumps(asked, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY);
    struct sha256 h;

    if (!text)
        return false;
    sha256_init(&h);
    sha256_add(&h, text, strlen(text));
    sha256_text(&h, out);
    return true;
}

static int make_checker(struct grader *g, json_t *asked, struct vial_request **out,
                        struct vial_error *err)
{
    auto_batch_request struct vial_request *req = NULL;
    auto_batch_request struct vial_request *compiled = NULL;
    double cpu_ms = 0;

    if (grade_request_make(g, asked, &req, err) < 0 ||
        grade_request_compile(g, req, &compiled, &cpu_ms, err) < 0)
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

    if (!hash_fields(asked, hash)) {
        (void)fail_memory(err);
        return NULL;
    }
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

static bool take_result(void *context, size_t index, struct vial_result *result)
{
    struct vial_result **out = context;
    bool first = index == 0 && !*out;

    if (first)
        *out = result;
    else
        vial_result_free(result);
    return first;
}

/* By a daemon, which compiles it once and keeps that for all rows that have the same.
 * *OUT stays NULL if nothing came, or vial failed: then it is tried again. */
static void run_kept(struct grader *g, const struct vial_request *checker, json_t *more,
                     struct vial_result **out)
{
    const struct vial_watch watch = { .cancel_fd = g->cancel_fd, .stdin_fd = -1 };
    auto_json json_t *inputs = json_pack("[O]", more);

    if (inputs)
        g->run_many(g->context, &(struct grade_many){ checker, inputs, true, &watch,
                                                      take_result, out });
    if (*out && ((*out)->verdict == VIAL_FAILED || (*out)->verdict == VIAL_DENIED))
        vial_result_free(ptr_take(out));
}

static int run_checker(struct grader *g, json_t *asked, json_t *more,
                       struct vial_result **out, struct vial_error *err)
{
    auto_batch_request struct vial_request *own = NULL;
    auto_batch_request struct vial_request *req = NULL;
    const struct vial_request *checker = find_checker(g, asked, &own, err);
    unsigned attempts;

    if (!checker)
        return -1;
    if (g->run_many && request_has(checker, language))
        run_kept(g, checker, more, out);
    if (*out)
        return 0;
    if (grade_request_over(checker, more, NULL, &req, err) < 0)
        return -1;
    return attempt_run(g, req, out, &attempts, err);
}

/* What it SAID of a test. */
static int conclude(const struct vial_result *said, struct vial_error *err)
{
    bool compiled = !str_eq(said->stage, "compile");

    if (said->verdict == VIAL_OK)
        return 1;
    if (said->verdict == VIAL_NONZERO && compiled &&
        (said->exit_code <= 2 || said->exit_code == POINTS))
        return 0;
    if (said->error.code[0]) {
        *err = said->error;
        return fail_in(err, "the checker");
    }
    return fail(err, VIAL_E_LOST, "the checker itself %s: %s, exit code %d",
                compiled ? "failed" : "does not compile",
                vial_verdict_name(said->verdict), said->exit_code);
}

int checker_judge(struct grader *g, const struct graded *it, struct vial_error *err)
{
    auto_batch_result struct vial_result *said = NULL;
    auto_json json_t *files = json_array();
    auto_json json_t *more = NULL;

    if (checker_files(it, files, err) < 0)
        return -1;
    more = json_pack("{s:O, s:[s,s,s]}", "files", files, "args", "input.txt",
                     "output.txt", "answer.txt");
    if (!more)
        return fail_memory(err);
    if (run_checker(g, json_object_get(it->test, "checker"), more, &said, err) < 0)
        return fail_in(err, "the checker");
    (void)json_object_set_new(it->told, "checker",
                              json_pack("{s:s, s:i}", "verdict",
                                        vial_verdict_name(said->verdict), "exit_code",
                                        said->exit_code));
    return conclude(said, err);
}
