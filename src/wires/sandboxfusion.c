/* SPDX-License-Identifier: Apache-2.0 */

/* SandboxFusion's routes. */

#include <string.h>

#include "api/inside.h"
#include "base/fail.h"
#include "model/request.h"
#include "wires/common_oj.h"
#include "wires/faces.h"
#include "wires/fusion_tmp.h"
#include "wires/fusion_words.h"
#include "wires/jupyter.h"
#include "wires/wires.h"

#define USUAL_S 10
/* verl gives up 10 s after all that it gives compiler and program, and tries again what
 * it was told was late, but not what it never heard of. Some of that is for our answer.
 */
#define SPARE_MS 9000

/* How long either step may wait for its turn, so that what then runs in time is heard.
 */
static int64_t patience_of(const struct program *p)
{
    if (inside_compiles(p->call->gen->engine, p->req))
        return SPARE_MS / 2;
    return SPARE_MS + p->compile.timeout_ms;
}

static void run_program(struct call *c)
{
    static const struct fusion_member members[] = {
        { "code", FUSION_TEXT, true },
        { "language", FUSION_TEXT, true },
        { "stdin", FUSION_TEXT_OR_NULL, false },
        { "compile_timeout", FUSION_NUMBER, false },
        { "run_timeout", FUSION_NUMBER, false },
        { "memory_limit_MB", FUSION_INTEGER, false },
        { "files", FUSION_OBJECT, false },
        { "fetch_files", FUSION_LIST, false },
        { 0 },
    };
    auto_vial_request struct vial_request *req = NULL;
    auto_outcome struct outcome o = { 0 };
    struct fusion_answer answer = { 0 };
    struct program p = { .call = c, .cancel_fd = web_gone_fd(c->web) };
    struct vial_error err = { 0 };
    json_t *entry, *code, *input;

    if (!fusion_body(c, members))
        return;
    entry = fusion_language(c, json_string_value(json_object_get(c->body, "language")));
    if (!entry)
        return;
    code = json_object_get(c->body, "code");
    input = json_object_get(c->body, "stdin");
    p.compile.timeout_ms =
        fusion_ms(json_object_get(c->body, "compile_timeout"), USUAL_S);
    if (wires_request(entry, json_string_value(code), json_string_length(code), &req,
                      &err) < 0 ||
        program_limit(req, FIELD_ID_timeout,
                      fusion_ms(json_object_get(c->body, "run_timeout"), USUAL_S),
                      &err) < 0 ||
        (json_is_string(input) &&
         vial_request_set_bytes(req, "stdin", json_string_value(input),
                                json_string_length(input), &err) < 0) ||
        fusion_fill(req, c->body, true, &err) < 0 ||
        fusion_tmp_lead(c, req, &err) < 0) {
        fusion_not_run(c, &err);
        return;
    }
    p.req = req;
    p.patience_ms = patience_of(&p);
    if (program_run(&p, &o, &err) < 0)
        fusion_not_run(c, &err);
    else
        fusion_send(
            c, &answer,
            fusion_outcome(&answer, &o, json_object_get(c->body, "fetch_files")));
}

static void ping(struct call *c)
{
    call_text(c, 200, "application/json", "\"pong\"", strlen("\"pong\""));
}

static void list_datasets(struct call *c)
{
    call_json(c, 200, json_array());
}

/* There are none: what every one of them is told that is not known there. */
static void no_dataset(struct call *c)
{
    static const struct fusion_member members[] = {
        { "dataset", FUSION_TEXT, true },
        { 0 },
    };
    struct vial_error err = { 0 };

    if (!fusion_body(c, members))
        return;
    (void)fail(&err, VIAL_E_VALUE, "no eval class found for dataset %.200s",
               json_string_value(json_object_get(c->body, "dataset")));
    face_refuse(c, &face_sandboxfusion, &err);
}

static void no_metrics(struct call *c)
{
    call_json(c, 200, json_object());
}

static void no_function(struct call *c)
{
    call_json(c, 200, json_pack("{s:n}", "function"));
}

static void submit(struct call *c)
{
    static const struct fusion_member members[] = {
        { "dataset", FUSION_TEXT, true },
        { "completion", FUSION_TEXT, true },
        { "config", FUSION_OBJECT, true },
        { 0 },
    };
    const char *type;

    if (!fusion_body(c, members))
        return;
    type = json_string_value(
        json_object_get(json_object_get(c->body, "config"), "dataset_type"));
    if (type && strcmp(type, "CommonOJDataset") == 0) {
        common_oj_submit(c);
        return;
    }
    json_decref(c->body);
    c->body = NULL;
    no_dataset(c);
}

static const struct face_route routes_here[] = {
    { "POST", "/run_code", SCOPE_RUN, run_program },
    { "POST", "/run_jupyter", SCOPE_RUN, jupyter_run },
    { "GET", "/v1/ping", SCOPE_NONE, ping },
    { "GET", "/list_datasets", SCOPE_RUN, list_datasets },
    { "POST", "/list_ids", SCOPE_RUN, no_dataset },
    { "POST", "/get_prompts", SCOPE_RUN, no_dataset },
    { "POST", "/get_prompt_by_id", SCOPE_RUN, no_dataset },
    { "POST", "/submit", SCOPE_RUN, submit },
    { "POST", "/get_metrics", SCOPE_RUN, no_metrics },
    { "POST", "/get_metrics_function", SCOPE_RUN, no_function },
    { 0 },
};

static const char *const bases[] = { "", NULL };

const struct face face_sandboxfusion = {
    .name = "sandboxfusion",
    .bases = bases,
    .routes = routes_here,
    .refuse = fusion_refuse,
};
