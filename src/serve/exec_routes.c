/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/fail.h"
#include "model/result.h"
#include "model/value.h"
#include "serve/bodies.h"
#include "serve/hold.h"
#include "serve/route.h"

#define PIECE    (32u << 10)
#define KEPT     (1u << 20) /* of each stream in a whole answer */
#define LOOK_MS  20         /* how often the second stream is looked at */
#define ARGS     4096u
#define START_MS 2000 /* how long an answer waits for a program's pid */

static json_t *pid_json(const struct vial_exec_status *s)
{
    return s->pid ? json_integer(s->pid) : json_null();
}

static json_t *status_json(unsigned number, const struct vial_exec_status *s)
{
    const char *signal = s->signal ? vial_signal_name(s->signal) : NULL;
    json_t *json = json_pack("{s:i, s:b, s:o, s:I, s:I}", "exec", (int)number,
                             "running", s->running, "pid", pid_json(s), "stdout_bytes",
                             (json_int_t)s->stdout_bytes, "stderr_bytes",
                             (json_int_t)s->stderr_bytes);

    if (!json || s->running)
        return json;
    (void)json_object_set_new(json, "verdict",
                              json_string(vial_verdict_name(s->verdict)));
    (void)json_object_set_new(
        json, "exit_code", s->exit_code < 0 ? json_null() : json_integer(s->exit_code));
    (void)json_object_set_new(json, "signal",
                              signal ? json_string(signal) : json_null());
    (void)json_object_set_new(json, "duration_ms", json_real(s->duration_ms));
    (void)json_object_set_new(json, "cpu_user_ms", json_real(s->cpu_user_ms));
    (void)json_object_set_new(json, "cpu_system_ms", json_real(s->cpu_system_ms));
    if (s->network_refused)
        (void)json_object_set_new(json, "network_refused",
                                  json_integer((json_int_t)s->network_refused));
    if (s->network)
        (void)json_object_set_new(json, "network", network_json(s->network));
    (void)json_object_set_new(json, "memory_peak_bytes",
                              json_integer((json_int_t)s->memory_peak_bytes));
    (void)json_object_set_new(json, "error", error_json(&s->error));
    return json;
}

static int read_env(json_t *map, struct strv *out, struct vial_error *err)
{
    for (void *at = json_object_iter(map); at; at = json_object_iter_next(map, at)) {
        const char *name = json_object_iter_key(at);

        if (!*name || strchr(name, '='))
            return fail(err, VIAL_E_VALUE, "'env' has a name that is none");
        strv_printf(out, "%s=%s", name, json_string_value(json_object_iter_value(at)));
    }
    return strv_ok(out) ? 0 : fail_memory(err);
}

static int start(struct call *c, struct hold *h, struct vial_error *err)
{
    struct exec_body body = { 0 };
    struct vial_exec_options o = { .correlation = c->id,
                                   .ended = hold_ended,
                                   .context = c->caller };
    auto_strv struct strv variables = { 0 };
    auto_free const char **args = NULL;

    if (body_read(c, BODY_exec, &body, err) < 0 ||
        read_env(body.env, &variables, err) < 0)
        return -1;
    if (body.entrypoint ? body.shell != NULL
                        : (body.argv != NULL) == (body.shell != NULL))
        return fail(err, VIAL_E_VALUE, "give either 'argv' or 'shell'");
    if (body.rows > 10000 || body.columns > 10000)
        return fail(err, VIAL_E_VALUE, "a terminal has at most 10000 rows and columns");
    if (body.argv &&
        (json_array_size(body.argv) < 1 || json_array_size(body.argv) > ARGS))
        return fail(err, VIAL_E_VALUE, "'argv' has not from 1 to %u entries", ARGS);
    if (body.argv && !(args = body_texts(body.argv, err)))
        return -1;
    o.argv = args;
    o.shell = body.shell;
    o.entrypoint = body.entrypoint;
    o.cwd = body.cwd;
    o.env = (const char *const *)variables.items;
    o.stdin_data = body.stdin.data;
    o.stdin_len = body.stdin.len;
    o.stdin_live = body.stdin_live;
    o.timeout_ms = body.timeout;
    o.rows = (unsigned)body.rows;
    o.columns = (unsigned)body.columns;
    if (hold_start(c, err) < 0)
        return -1;
    if (vial_session_exec(h->session->session, &o, &h->exec, err) < 0) {
        hold_ended(c->caller);
        return -1;
    }
    if (registered_add_exec(h->session, h->exec, &h->number, err) == 0)
        return 0;
    vial_exec_free(h->exec);
    h->exec = NULL;
    return -1;
}

/* Reads what is kept of a stream, at most KEPT bytes; from its begin on if that is
 * still there. */
static int read_whole(struct vial_exec *exec, int stream, struct str *out, bool *lost,
                      struct vial_error *err)
{
    auto_free char *buf = malloc(PIECE);
    struct vial_chunk chunk = { 0 };
    uint64_t at = 0;

    *lost = false;
    while (buf && out->len < KEPT && !chunk.end) {
        if (vial_exec_read(exec, stream, at, buf, PIECE, 0, &chunk, err) < 0)
            return -1;
        *lost = *lost || chunk.gap > 0;
        str_add(out, buf, chunk.len);
        at = chunk.offset + chunk.len;
        if (chunk.len == 0)
            break;
    }
    *lost = *lost || !chunk.end;
    return buf && str_ok(out) ? 0 : fail_memory(err);
}

static void tell_whole(struct call *c, struct hold *h,
                       const struct vial_exec_status *status)
{
    static const char *const names[] = { "stdout", "stderr", "stdout_truncated",
                                         "stderr_truncated" };
    auto_str struct str out = { 0 };
    auto_str struct str errors = { 0 };
    auto_larges struct json_larges larges = { 0 };
    auto_json json_t *json = status_json(h->number, status);
    struct call_tree tree = { .json = json,
                              .larges = &larges,
                              .style = JSON_STYLE_COMPACT };
    struct vial_error err = { 0 };

    for (int i = 0; i < 2; i++) {
        struct str *text = i == 0 ? &out : &errors;
        bool lost;

        if (read_whole(h->exec, i + 1, text, &lost, &err) < 0) {
            call_error(c, &err);
            return;
        }
        (void)json_object_set_new(
            json, names[i],
            json_large(&larges, text->data ? text->data : "", text->len, false));
        (void)json_object_set_new(json, names[2 + i], json_boolean(lost));
        tree.bytes += text->len;
    }
    call_tree(c, 200, &tree, NULL);
}

static uint64_t whole_most(const struct vial_exec_status *status)
{
    uint64_t out = status->stdout_bytes < KEPT ? status->stdout_bytes : KEPT;
    uint64_t err = status->stderr_bytes < KEPT ? status->stderr_bytes : KEPT;

    return out + err + 2 * (uint64_t)PIECE;
}

static void answer_whole(struct call *c, struct hold *h)
{
    struct vial_exec_status status;
    struct vial_error err = { 0 };
    uint64_t most;

    vial_exec_wait(h->exec, 0, &status);
    most = whole_most(&status);
    if (!budget_take(c->serve->budget, BUDGET_MEMORY, c->who.name, most)) {
        (void)fail(&err, VIAL_E_BUSY, "there is no memory left for this answer");
        (void)fail_remedy(&err,
                          "try again when others were read, or read the output by "
                          "its pieces");
        call_error(c, &err);
        return;
    }
    tell_whole(c, h, &status);
    budget_give(c->serve->budget, BUDGET_MEMORY, c->who.name, most);
}

/* Waits until it has ended or the client is gone; false: gone. */
static bool wait_for(struct call *c, struct vial_exec *exec)
{
    struct pollfd gone = { .fd = web_gone_fd(c->web), .events = POLLIN };
    struct vial_exec_status status;

    do {
        vial_exec_wait(exec, 500, &status);
        if (status.running && poll(&gone, 1, 0) > 0)
            return false;
    } while (status.running);
    return true;
}

struct attached {
    struct stream s;
    struct vial_exec *exec;
    uint64_t at[2];
    bool ended[2];
    char *buf;
};

/* One piece of a stream, if there is any. 1: there was one; -1: give up. */
static int forward(struct attached *a, int i, int64_t wait_ms)
{
    struct vial_chunk chunk = { 0 };
    struct vial_error err = { 0 };

    if (a->ended[i])
        return 0;
    if (vial_exec_read(a->exec, i + 1, a->at[i], a->buf, PIECE, wait_ms, &chunk, &err) <
        0) {
        (void)stream_event(&a->s, "error",
                           json_pack("{s:o}", "error", error_json(&err)));
        return -1;
    }
    if (chunk.gap > 0 && stream_event(&a->s, "gap",
                                      json_pack("{s:i, s:I}", "stream", i + 1, "bytes",
                                                (json_int_t)chunk.gap)) < 0)
        return -1;
    a->at[i] = chunk.offset + chunk.len;
    a->ended[i] = chunk.end;
    if (chunk.len == 0)
        return 0;
    return stream_output(&a->s, i + 1, (int64_t)chunk.offset, a->buf, chunk.len) < 0
               ? -1
               : 1;
}

static void follow(struct call *c, struct attached *a, unsigned number)
{
    struct pollfd gone = { .fd = web_gone_fd(c->web), .events = POLLIN };
    struct vial_exec_status status;

    while (!a->ended[0] || !a->ended[1]) {
        int out = forward(a, 0, 0);
        int err = forward(a, 1, 0);

        if (out == 0 && err == 0)
            out = forward(a, a->ended[0] ? 1 : 0, LOOK_MS);
        if (out < 0 || err < 0 || poll(&gone, 1, 0) > 0)
            break;
    }
    vial_exec_wait(a->exec, a->ended[0] && a->ended[1] ? 5000 : 0, &status);
    (void)stream_last(&a->s, "exit", status_json(number, &status));
}

static void attach(struct call *c, struct hold *h, enum stream_form form, uint64_t out,
                   uint64_t err)
{
    auto_free char *buf = malloc(PIECE);
    struct attached a = { .exec = h->exec, .at = { out, err }, .buf = buf };
    struct vial_exec_status status;

    if (!buf || stream_start(&a.s, c, form == STREAM_NONE ? STREAM_NDJSON : form) < 0)
        return;
    vial_exec_follow(h->exec, a.at);
    vial_exec_wait_started(h->exec, START_MS, &status);
    if (stream_event(&a.s, "start",
                     json_pack("{s:i, s:o}", "exec", (int)h->number, "pid",
                               pid_json(&status))) == 0)
        follow(c, &a, h->number);
    vial_exec_unfollow(h->exec);
}

void execs_start(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };
    struct vial_exec_status status;
    enum stream_form form;

    if (stream_wanted(c, &form, &err) < 0 || hold_session(c, &h, &err) < 0 ||
        start(c, &h, &err) < 0) {
        call_error(c, &err);
        return;
    }
    if (form != STREAM_NONE) {
        attach(c, &h, form, 0, 0);
    } else if (call_flag(c, "wait")) {
        /* Nobody else knows of it yet: it goes with the one who asked for it. */
        if (!wait_for(c, h.exec) && vial_exec_signal(h.exec, SIGKILL, true, &err) < 0)
            call_note(c, "kill", err.code);
        answer_whole(c, &h);
    } else {
        vial_exec_wait_started(h.exec, START_MS, &status);
        call_json(c, 201, status_json(h.number, &status));
    }
}

void execs_list(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_session_report report;
    struct vial_error err = { 0 };
    json_t *list = json_array();

    if (hold_session(c, &h, &err) < 0) {
        json_decref(list);
        call_error(c, &err);
        return;
    }
    vial_session_look(h.session->session, &report);
    for (unsigned n = 1; n <= report.execs; n++) {
        struct vial_exec *exec = registered_exec(h.session, n);
        struct vial_exec_status status;

        if (!exec)
            continue;
        vial_exec_wait(exec, 0, &status);
        (void)json_array_append_new(list, status_json(n, &status));
        registered_exec_done(h.session, n);
    }
    call_json(c, 200, list);
}

void execs_get(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_exec_status status;
    struct vial_error err = { 0 };

    if (hold_exec(c, &h, &err) < 0) {
        call_error(c, &err);
        return;
    }
    if (call_flag(c, "wait")) {
        (void)wait_for(c, h.exec);
        answer_whole(c, &h);
        return;
    }
    vial_exec_wait(h.exec, 0, &status);
    call_json(c, 200, status_json(h.number, &status));
}

void execs_attach(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };
    int64_t out = 0;
    int64_t errors = 0;
    enum stream_form form;

    if (stream_wanted(c, &form, &err) < 0 || call_number(c, "stdout", &out, &err) < 0 ||
        call_number(c, "stderr", &errors, &err) < 0 || hold_exec(c, &h, &err) < 0)
        call_error(c, &err);
    else
        attach(c, &h, form, (uint64_t)out, (uint64_t)errors);
}

/* Raw bytes, until the end with STAY, else until what is there now. False: bytes are
 * missing. */
static bool copy_out(struct call *c, struct vial_exec *exec, int stream,
                     uint64_t offset, bool stay)
{
    struct pollfd gone = { .fd = web_gone_fd(c->web), .events = POLLIN };
    auto_free char *buf = malloc(PIECE);
    struct vial_error err = { 0 };
    struct vial_chunk chunk = { 0 };

    while (buf && !chunk.end) {
        if (vial_exec_read(exec, stream, offset, buf, PIECE, stay ? 500 : 0, &chunk,
                           &err) < 0 ||
            chunk.gap > 0)
            return false;
        offset = chunk.offset + chunk.len;
        if (chunk.len && web_write(c->web, buf, chunk.len) < 0)
            return false;
        if (chunk.len == 0 && (!stay || poll(&gone, 1, 0) > 0))
            return true;
    }
    return buf != NULL;
}

static void set_count(struct call *c, const char *name, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    (void)web_set_header(c->web, name, text);
}

/* FIRST says from where on there is anything. */
static void copy_from(struct call *c, struct vial_exec *exec, int stream,
                      const struct vial_chunk *first)
{
    const uint64_t from[2] = { stream == 1 ? first->offset : UINT64_MAX,
                               stream == 2 ? first->offset : UINT64_MAX };
    bool stay = call_flag(c, "follow");
    bool whole;

    set_count(c, "Vial-Offset", first->offset);
    if (first->gap > 0)
        set_count(c, "Vial-Gap", first->gap);
    c->status = 200;
    if (web_start(c->web, 200, "application/octet-stream") < 0)
        return;
    if (stay)
        vial_exec_follow(exec, from);
    whole = copy_out(c, exec, stream, first->offset, stay);
    if (stay)
        vial_exec_unfollow(exec);
    if (whole)
        web_end(c->web);
    else
        web_abort(c->web);
}

void execs_output(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };
    struct vial_chunk chunk;
    const char *of = web_query(c->web, "of");
    int stream = of && strcmp(of, "stderr") == 0 ? 2 : 1;
    int64_t offset = 0;
    char byte;

    if (of && stream == 1 && strcmp(of, "stdout") != 0) {
        (void)fail(&err, VIAL_E_VALUE, "'of' is neither stdout nor stderr");
        call_error(c, &err);
        return;
    }
    if (call_number(c, "offset", &offset, &err) < 0 || hold_exec(c, &h, &err) < 0 ||
        vial_exec_read(h.exec, stream, (uint64_t)offset, &byte, 1, 0, &chunk, &err) <
            0) {
        call_error(c, &err);
        return;
    }
    copy_from(c, h.exec, stream, &chunk);
}

void execs_stdin(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct vial_error err = { 0 };
    size_t taken = 0;
    size_t len;
    const char *data = web_body(c->web, &len);

    if (hold_exec(c, &h, &err) < 0 ||
        (len && vial_exec_write(h.exec, data, len, 30000, &taken, &err) < 0) ||
        (call_flag(c, "close") && vial_exec_close_stdin(h.exec, &err) < 0))
        call_error(c, &err);
    else
        call_json(c, 200, json_pack("{s:I}", "taken", (json_int_t)taken));
}

static int signal_number(const char *name, int64_t number, struct vial_error *err)
{
    if (name && strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; name && i < 65; i++) {
        const char *known = vial_signal_name(i);

        if (known && strcmp(known, name) == 0)
            return i;
    }
    if (!name && number > 0 && number < 65)
        return (int)number;
    return fail(err, VIAL_E_VALUE, "'signal' is not the name of a signal");
}

void execs_signal(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct signal_body body = { 0 };
    struct vial_error err = { 0 };
    int signal;

    if (hold_exec(c, &h, &err) < 0 || body_read(c, BODY_signal, &body, &err) < 0 ||
        (signal = signal_number(body.signal, body.number, &err)) < 0 ||
        vial_exec_signal(h.exec, signal, body.tree, &err) < 0)
        call_error(c, &err);
    else
        call_done(c);
}

void execs_resize(struct call *c)
{
    auto_hold struct hold h = { 0 };
    struct resize_body b = { 0 };
    struct vial_error err = { 0 };

    if (hold_exec(c, &h, &err) < 0 || body_read(c, BODY_resize, &b, &err) < 0) {
        call_error(c, &err);
        return;
    }
    if (b.rows < 1 || b.columns < 1 || b.rows > 10000 || b.columns > 10000)
        (void)fail(&err, VIAL_E_VALUE, "'rows' and 'columns' are not from 1 to 10000");
    else if (vial_exec_resize(h.exec, (unsigned)b.rows, (unsigned)b.columns, &err) ==
             0) {
        call_done(c);
        return;
    }
    call_error(c, &err);
}
