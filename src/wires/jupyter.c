/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/jupyter.h"

#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/text.h"
#include "model/request.h"
#include "wires/faces.h"
#include "wires/fusion_words.h"

#include "vial/context.h"
#include "vial/files.h"

#define USUAL_S    45
#define REST_MS    60000                /* for all but the cells */
#define FILE_BYTES ((uint64_t)64 << 20) /* of all that are fetched */
#define COPIES     3u                   /* of a file, coded, until it was sent */

AUTO(session, struct vial_session, vial_session_free)
#define auto_session __attribute__((cleanup(auto_session_)))
AUTO(context, struct vial_context, vial_context_close)
#define auto_context __attribute__((cleanup(auto_context_)))

struct notebook {
    struct call *call;
    int64_t cell_ms, total_ms; /* cell_ms 0: no bound of its own */
    int64_t until_ns;
    bool late;
    json_t *cells; /* answers */
    json_t *files;
    struct vial_session *session;
};

static void add_display(json_t *list, json_t *value)
{
    if (json_is_object(value))
        (void)json_array_append(list, value);
}

static json_t *error_of(json_t *said)
{
    json_t *trace = json_object_get(said, "traceback");
    json_t *lines = json_array();

    if (!json_is_object(said)) {
        json_decref(lines);
        return json_array();
    }
    if (json_is_string(trace))
        (void)json_array_append(lines, trace);
    else
        (void)json_array_extend(lines, trace);
    return json_pack("[{s:O, s:O, s:o}]", "ename", json_object_get(said, "name"),
                     "evalue", json_object_get(said, "value"), "traceback", lines);
}

/* A cell's answer in SandboxFusion's words. */
static json_t *cell_json(json_t *said)
{
    json_t *display = json_array();
    json_t *displays = json_object_get(said, "displays");

    for (size_t i = 0; i < json_array_size(displays); i++)
        add_display(display, json_array_get(displays, i));
    add_display(display, json_object_get(said, "value"));
    return json_pack("{s:O, s:O, s:o, s:o}", "stdout", json_object_get(said, "stdout"),
                     "stderr", json_object_get(said, "stderr"), "display", display,
                     "error", error_of(json_object_get(said, "error")));
}

static int run_cell(struct notebook *n, struct vial_context *context,
                    const json_t *code, struct vial_error *err)
{
    int64_t left_ms = (n->until_ns - clock_now_ns()) / 1000000;
    int64_t most_ms = n->cell_ms && n->cell_ms < left_ms ? n->cell_ms : left_ms;
    const struct vial_watch watch = { .cancel_fd = web_gone_fd(n->call->web),
                                      .stdin_fd = -1,
                                      .correlation = n->call->id };
    auto_free char *json = NULL;
    auto_json json_t *said = NULL;

    n->late = left_ms <= 0;
    if (n->late)
        return 0;
    if (vial_context_watch(context, json_string_value(code), json_string_length(code),
                           most_ms, &watch, &json, err) < 0 ||
        json_parse(json, strlen(json), "cell", &said, err) < 0)
        return -1;
    n->late = clock_now_ns() >= n->until_ns;
    return json_array_append_new(n->cells, cell_json(said)) < 0 ? fail_memory(err) : 0;
}

static int run_cells(struct notebook *n, struct vial_error *err)
{
    auto_context struct vial_context *context = NULL;
    json_t *cells = json_object_get(n->call->body, "cells");
    int rc = vial_context_open(n->session, "python", &context, err);

    n->until_ns = clock_now_ns() + n->total_ms * 1000000;
    for (size_t i = 0; rc == 0 && !n->late && i < json_array_size(cells); i++)
        rc = run_cell(n, context, json_array_get(cells, i), err);
    return rc;
}

/* How long a file is. False: there is none. */
static bool weigh(struct notebook *n, const char *path, uint64_t *out)
{
    struct vial_entry entry = { 0 };
    struct vial_error err;
    bool file;

    if (vial_session_stat(n->session, path, &entry, &err) < 0)
        return false;
    file = entry.type == 'f';
    *out = entry.size;
    vial_entry_done(&entry);
    return file;
}

/* BYTES of it, which are paid for, and no more: it may have grown. */
static void fetch(struct notebook *n, const char *name, uint64_t bytes)
{
    auto_free char *data = NULL;
    auto_str struct str text = { 0 };
    struct vial_error err;
    size_t len = 0;

    if (vial_session_get(n->session, program_path(name), 0, bytes ? bytes : 1, &data,
                         &len, &err) < 0)
        return;
    text_base64(&text, data, len);
    if (str_ok(&text))
        (void)json_object_set_new(n->files, name,
                                  json_string(text.data ? text.data : ""));
}

/* What is not there is not in the answer, either. */
static int fetch_files(struct notebook *n, struct vial_error *err)
{
    json_t *names = json_object_get(n->call->body, "fetch_files");
    uint64_t left = FILE_BYTES, bytes;

    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        if (!weigh(n, program_path(name), &bytes))
            continue;
        if (bytes > left)
            return fail(err, VIAL_E_VALUE, "fetch_files are more than 64 MiB in all");
        if (!web_pay(n->call->web, COPIES * bytes))
            return fail(err, VIAL_E_BUSY, "there is no memory left for fetch_files");
        left -= bytes;
        fetch(n, name, bytes);
    }
    return 0;
}

static json_t *answer_of(const struct notebook *n, double took_ms)
{
    return json_pack("{s:s, s:s, s:{s:s, s:f, s:o, s:s, s:s}, s:o, s:n, s:O}", "status",
                     n->late ? "Failed" : "Success", "message", "", "driver", "status",
                     n->late ? "TimeLimitExceeded" : "Finished", "execution_time",
                     took_ms / 1000.0, "return_code",
                     n->late ? json_null() : json_integer(0), "stdout", "", "stderr",
                     "", "cells", n->late ? json_array() : json_incref(n->cells),
                     "executor_pod_name", "files", n->files);
}

/* The interpreter was lost: a cell killed it, or it took all the memory. */
static json_t *lost(const struct notebook *n, const struct vial_error *err)
{
    return json_pack("{s:s, s:s, s:{s:s, s:f, s:i, s:s, s:s}, s:[], s:n, s:{}}",
                     "status", "Failed", "message", err->message, "driver", "status",
                     "Finished", "execution_time", (double)n->total_ms / 1000.0,
                     "return_code", -9, "stdout", "", "stderr", err->message, "cells",
                     "executor_pod_name", "files");
}

static void answer(struct notebook *n, const struct vial_request *req)
{
    struct call *c = n->call;
    const struct vial_session_options options = { .lease_ms = n->total_ms + REST_MS,
                                                  .caller = c->who.name,
                                                  .correlation = c->id };
    auto_session struct vial_session *session = NULL;
    struct vial_session_report report = { 0 };
    struct vial_error err = { 0 };
    struct gate_pass pass;
    int64_t began_ns = clock_now_ns();
    int rc, fetched = 0;

    if (program_turn(c, web_gone_fd(c->web), &pass, &err) < 0) {
        fusion_not_run(c, &err);
        return;
    }
    rc = vial_session_open(c->gen->engine, req, &options, &session, &err);
    n->session = session;
    if (rc == 0)
        rc = run_cells(n, &err);
    if (rc == 0 && !n->late)
        fetched = fetch_files(n, &err);
    if (session)
        vial_session_look(session, &report);
    gate_leave(&c->serve->gate, &pass,
               report.usage.cpu_user_ms + report.usage.cpu_system_ms);
    if (fetched < 0 || (rc < 0 && !session))
        fusion_not_run(c, &err);
    else if (rc == 0)
        call_json(c, 200, answer_of(n, clock_ms_between(began_ns, clock_now_ns())));
    else
        call_json(c, 200, lost(n, &err));
}

static bool are_texts(json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return false;
    return true;
}

/* Each file once, under one of its names. */
static int check_fetched(const struct vial_request *req, struct vial_error *err)
{
    const struct strv *paths = &req->outputs;

    for (size_t i = 0; i < paths->count; i++)
        for (size_t n = 0; n < i; n++)
            if (strcmp(paths->items[i], paths->items[n]) == 0)
                return fail(err, VIAL_E_VALUE, "fetch_files has '%.200s' twice",
                            paths->items[i]);
    return 0;
}

void jupyter_run(struct call *c)
{
    static const struct fusion_member members[] = {
        { "cells", FUSION_LIST, true },
        { "cell_timeout", FUSION_NUMBER, false },
        { "total_timeout", FUSION_NUMBER, false },
        { "memory_limit_MB", FUSION_INTEGER, false },
        { "kernel", FUSION_TEXT, false },
        { "files", FUSION_OBJECT, false },
        { "fetch_files", FUSION_LIST, false },
        { 0 },
    };
    auto_vial_request struct vial_request *req = NULL;
    auto_json json_t *cells = json_array();
    auto_json json_t *files = json_object();
    struct notebook n = { .call = c, .cells = cells, .files = files };
    struct vial_error err = { 0 };
    const char *kernel;

    if (!fusion_body(c, members))
        return;
    kernel = json_string_value(json_object_get(c->body, "kernel"));
    if (kernel && strcmp(kernel, "python3") != 0) {
        fusion_refuse_member(c, "kernel", "literal_error", "Input should be 'python3'");
        return;
    }
    if (!are_texts(json_object_get(c->body, "cells"))) {
        fusion_refuse_member(c, "cells", "string_type",
                             "Input should be a valid string");
        return;
    }
    n.total_ms = fusion_ms(json_object_get(c->body, "total_timeout"), USUAL_S);
    if (json_number_value(json_object_get(c->body, "cell_timeout")) > 0)
        n.cell_ms = fusion_ms(json_object_get(c->body, "cell_timeout"), USUAL_S);
    if (vial_request_new(&req, &err) < 0 ||
        program_limit(req, FIELD_ID_timeout, n.total_ms, &err) < 0 ||
        fusion_fill(req, c->body, false, &err) < 0 || check_fetched(req, &err) < 0 ||
        job_check(c, req, &err) < 0)
        fusion_not_run(c, &err);
    else
        answer(&n, req);
}
