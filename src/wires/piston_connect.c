/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/piston_connect.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/text.h"
#include "model/request.h"
#include "model/value.h"
#include "web/websocket.h"
#include "wires/piston_words.h"

#include "vial/session.h"

#define INPUT_MOST ((size_t)1 << 20) /* that waits for the program */
#define PIECE      (16u << 10)
#define INIT_MS    1000
#define LOOK_MS    20
#define REST_MS    60000 /* for all but the program */
#define SIGNALS    64

AUTO(session, struct vial_session, vial_session_free)
#define auto_session __attribute__((cleanup(auto_session_)))

/* Why the socket is closed; Piston's numbers. */
enum {
    CLOSE_TWICE = 4000,
    CLOSE_LATE = 4001,
    CLOSE_ERROR = 4002,
    CLOSE_EARLY = 4003,
    CLOSE_STREAM = 4004,
    CLOSE_SIGNAL = 4005,
    CLOSE_DONE = 4999
};

struct flow {
    uint64_t offset;
    char held[4]; /* the begin of a character that is not whole */
    size_t held_len;
    bool ended;
};

struct talk {
    struct call *call;
    struct web_socket *socket;
    struct vial_exec *exec;
    struct flow streams[2];
    size_t paid;      /* of the caller's share of bodies, for the job */
    struct str input; /* waits for the program, from INPUT_AT on */
    size_t input_at;
    bool eof, input_over;
    bool gone;
    double cpu_ms;
    unsigned code; /* 0: not to be closed yet */
    const char *reason;
};

static void finish(struct talk *t, unsigned code, const char *reason)
{
    if (t->code)
        return;
    t->code = code;
    t->reason = reason;
}

/* Takes TOLD. */
static void tell(struct talk *t, json_t *told)
{
    char *text = told ? json_dumps(told, JSON_COMPACT) : NULL;

    if (!text || web_socket_send(t->socket, text, strlen(text)) < 0)
        t->gone = true;
    free(text);
    json_decref(told);
}

static void tell_error(struct talk *t, const char *message)
{
    tell(t, json_pack("{s:s, s:s}", "type", "error", "message", message));
    finish(t, CLOSE_ERROR, "Notified Error");
}

static void tell_stage(struct talk *t, const char *stage)
{
    tell(t, json_pack("{s:s, s:s}", "type", "stage", "stage", stage));
}

static void tell_text(struct talk *t, int stream, const char *data, size_t len)
{
    if (len > 0)
        tell(t, json_pack("{s:s, s:s, s:o}", "type", "data", "stream",
                          stream == 2 ? "stderr" : "stdout", "data",
                          value_text_json(data, len)));
}

static void tell_exit(struct talk *t, const char *stage, const struct stage *s)
{
    tell(t, json_pack("{s:s, s:s, s:o, s:o}", "type", "exit", "stage", stage, "code",
                      piston_code(s), "signal", piston_signal(s)));
}

/* True: there was something. */
static bool pump(struct talk *t, int stream)
{
    struct flow *s = &t->streams[stream - 1];
    char piece[PIECE + 4];
    struct vial_chunk chunk = { 0 };
    struct vial_error err;
    size_t len, rest;

    memcpy(piece, s->held, s->held_len);
    if (s->ended || vial_exec_read(t->exec, stream, s->offset, piece + s->held_len,
                                   PIECE, 0, &chunk, &err) < 0)
        return false;
    s->offset = chunk.offset + chunk.len;
    s->ended = chunk.end;
    len = s->held_len + chunk.len;
    rest = chunk.end ? 0 : text_unfinished(piece, len);
    tell_text(t, stream, piece, len - rest);
    memcpy(s->held, piece + len - rest, rest);
    s->held_len = rest;
    return chunk.len > 0;
}

static void feed(struct talk *t)
{
    struct vial_error err;
    size_t taken = 0;

    if (t->input_over)
        return;
    if (t->input.len > t->input_at &&
        vial_exec_write(t->exec, t->input.data + t->input_at,
                        t->input.len - t->input_at, 0, &taken, &err) < 0)
        taken = t->input.len - t->input_at; /* it reads no more */
    t->input_at += taken;
    if (t->input_at < t->input.len)
        return;
    t->input.len = t->input_at = 0;
    if (t->eof) {
        t->input_over = true;
        if (vial_exec_close_stdin(t->exec, &err) < 0)
            return; /* it has ended, which its status tells */
    }
}

static int signal_number(const char *name)
{
    for (int i = 1; name && str_starts(name, "SIG") && i <= SIGNALS; i++)
        if (str_eq(vial_signal_name(i), name + 3))
            return i;
    return 0;
}

static void hear_data(struct talk *t, json_t *message)
{
    json_t *data = json_object_get(message, "data");

    if (!str_eq(json_string_value(json_object_get(message, "stream")), "stdin")) {
        finish(t, CLOSE_STREAM, "Can only write to stdin");
        return;
    }
    if (t->input.len - t->input_at + json_string_length(data) > INPUT_MOST) {
        tell_error(t, "the program does not read its input");
        return;
    }
    if (json_is_string(data))
        str_add(&t->input, json_string_value(data), json_string_length(data));
    t->eof = t->eof || json_is_true(json_object_get(message, "eof"));
}

static void hear_signal(struct talk *t, json_t *message)
{
    int number = signal_number(value_string(json_object_get(message, "signal")));
    struct vial_error err;

    if (!number)
        finish(t, CLOSE_SIGNAL, "Invalid signal");
    else if (vial_exec_signal(t->exec, number, true, &err) < 0)
        return; /* the same */
}

static void hear(struct talk *t, const char *data, size_t len)
{
    auto_json json_t *message = NULL;
    struct vial_error err = { 0 };
    const char *type;

    if (json_parse(data, len, "message", &message, &err) < 0) {
        tell_error(t, err.message);
        return;
    }
    type = value_string(json_object_get(message, "type"));
    if (str_eq(type, "init"))
        finish(t, CLOSE_TWICE, "Already Initialized");
    else if (str_eq(type, "data"))
        hear_data(t, message);
    else if (str_eq(type, "signal"))
        hear_signal(t, message);
}

/* Between the program and the client, until one of them ends. */
static void carry(struct talk *t, struct vial_exec_status *status)
{
    bool more = true;

    do {
        const char *data;
        size_t len;
        bool out = pump(t, 1);
        enum web_socket_said said;

        more = pump(t, 2) || out;
        feed(t);
        said = web_socket_read(t->socket, more ? 0 : LOOK_MS, &data, &len);
        if (said == WEB_SOCKET_MESSAGE)
            hear(t, data, len);
        t->gone = t->gone || said == WEB_SOCKET_GONE;
        vial_exec_wait(t->exec, 0, status);
    } while (!t->gone && !t->code && (status->running || more));
    while (!t->gone && (pump(t, 1) || pump(t, 2)))
        ;
}

static void run(struct talk *t, const struct vial_request *req)
{
    struct call *c = t->call;
    const struct vial_session_options options = { .lease_ms = req->timeout + REST_MS,
                                                  .caller = c->who.name,
                                                  .correlation = c->id };
    const struct vial_exec_options exec = {
        .argv = (const char *const *)req->command.items,
        .stdin_live = true,
        .timeout_ms = req->timeout,
    };
    auto_session struct vial_session *session = NULL;
    struct vial_exec_status status = { .running = true };
    struct stage ended = { 0 };
    struct vial_error err = { 0 };

    if (vial_session_open(c->gen->engine, req, &options, &session, &err) < 0 ||
        vial_session_exec(session, &exec, &t->exec, &err) < 0) {
        tell_error(t, err.message);
        return;
    }
    vial_exec_follow(t->exec, NULL);
    carry(t, &status);
    vial_exec_unfollow(t->exec);
    t->cpu_ms = status.cpu_user_ms + status.cpu_system_ms;
    if (status.running)
        return;
    ended.verdict = status.verdict;
    ended.exit_code = status.exit_code;
    ended.signal = status.signal;
    tell_exit(t, "run", &ended);
    finish(t, CLOSE_DONE, "Job Completed");
}

/* A program without a compile step, as a plain command. */
static int as_command(const struct program *p, json_t *entry, struct vial_request **out,
                      struct vial_error *err)
{
    auto_vial_request struct vial_request *req = NULL;
    const char *name = p->req->words.file ? p->req->words.file : "file0.code";
    json_t *words = json_object_get(entry, "plain");

    if (vial_request_new(&req, err) < 0 || request_fill(req, p->req, err) < 0 ||
        program_file(req, name, p->req->code.data ? p->req->code.data : "",
                     p->req->code.len, 0644, err) < 0)
        return -1;
    wording_done(&req->words);
    request_unset(req, FIELD_ID_language);
    request_unset(req, FIELD_ID_code);
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));

        if (vial_request_set(req, "command", str_eq(word, "{file}") ? name : word,
                             err) < 0)
            return -1;
    }
    if (request_join_args(req, err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

/* The request that runs; NULL: it did not compile, or cannot, which was told. */
static struct vial_request *prepare(struct talk *t, struct program *p,
                                    const struct piston_runtime *runtime)
{
    auto_stage struct stage told = { 0 };
    struct vial_request *made = NULL;
    struct vial_error err = { 0 };
    bool compiles = !json_object_get(runtime->entry, "plain");

    if (compiles)
        tell_stage(t, "compile");
    if (compiles ? program_compile(p, &made, &told, &err) < 0
                 : job_check(t->call, p->req, &err) < 0 ||
                       as_command(p, runtime->entry, &made, &err) < 0) {
        tell_error(t, err.message);
        return NULL;
    }
    tell_text(t, 1, told.out.data, told.out.len);
    tell_text(t, 2, told.err.data, told.err.len);
    if (told.there)
        tell_exit(t, "compile", &told);
    if (!made)
        finish(t, CLOSE_DONE, "Job Completed");
    return made;
}

static void do_job(struct talk *t, json_t *body)
{
    struct call *c = t->call;
    struct program p = { .call = c, .cancel_fd = web_gone_fd(c->web) };
    auto_vial_request struct vial_request *made = NULL;
    struct piston_runtime runtime;
    struct gate_pass pass;
    struct vial_error err = { 0 };

    (void)json_object_del(body, "stdin"); /* it comes live */
    if (piston_job(c, body, &runtime, &p, &err) < 0) {
        tell_error(t, err.message);
        vial_request_free(p.req);
        return;
    }
    tell(t, json_pack("{s:s, s:s, s:s}", "type", "runtime", "language", runtime.name,
                      "version", runtime.version));
    made = prepare(t, &p, &runtime);
    if (made && program_turn(c, p.cancel_fd, &pass, &err) < 0) {
        tell_error(t, err.message);
    } else if (made) {
        tell_stage(t, "run");
        run(t, made);
        gate_leave(&c->serve->gate, &pass, t->cpu_ms);
    }
    vial_request_free(p.req);
}

static bool pay(struct talk *t, size_t bytes)
{
    if (!gate_take(&t->call->serve->gate, t->call->caller, GATE_BODIES, bytes))
        return false;
    t->paid = bytes;
    return true;
}

/* The first message, which has to be `init`. */
static json_t *await_init(struct talk *t)
{
    json_t *body = NULL;
    struct vial_error err = { 0 };
    const char *data;
    size_t len;

    if (web_socket_read(t->socket, INIT_MS, &data, &len) != WEB_SOCKET_MESSAGE)
        finish(t, CLOSE_LATE, "Initialization Timeout");
    else if (!pay(t, len))
        tell_error(t, "there is no room for the job now");
    else if (json_parse(data, len, "message", &body, &err) < 0)
        tell_error(t, err.message);
    else if (!str_eq(value_string(json_object_get(body, "type")), "init"))
        finish(t, CLOSE_EARLY, "Not yet initialized");
    return body;
}

void piston_connect(struct call *c)
{
    size_t most = (size_t)c->gen->settings->serve.body;
    struct talk t = { .call = c, .socket = web_socket_open(c->web, most) };
    json_t *body;

    c->status = t.socket ? 101 : 426;
    if (!t.socket)
        return;
    body = await_init(&t);
    if (!t.code)
        do_job(&t, body);
    json_decref(body);
    gate_give(&c->serve->gate, c->caller, GATE_BODIES, t.paid);
    str_done(&t.input);
    web_socket_close(t.socket, t.code ? t.code : CLOSE_DONE, t.reason ? t.reason : "");
}
