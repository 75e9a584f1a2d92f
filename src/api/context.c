/* SPDX-License-Identifier: Apache-2.0 */

/* The host's side of runtimes/context.*: frames of JSON over an exec's stdin and
 * stdout. They come from inside the vessel, hence bounds on everything. */

#include "vial/context.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "engine/session.h"

#define START_MS     30000
#define GRACE_MS     2000 /* for a cell to stop after it was interrupted */
#define INTERRUPTS   2    /* the first is lost on a cell that has not yet begun */
#define CANCEL_MS    50   /* the same for one that was cancelled */
#define LOOK_MS      10   /* how often the caller is looked after */
#define FRAME_MAX    (32u << 20)
#define HARNESS_MAX  (100u << 10) /* it travels as one argument */
#define DISPLAYS_MAX 256u
#define DISPLAY_MAX  (64u << 20) /* bytes of all frames of a cell but streams */
#define PIECE        (64u << 10)

struct vial_context {
    struct vial_session *session;
    const struct language *language; /* borrowed from the settings */
    char *harness;
    const char *flag; /* that which makes an argument a program: "-c" */
    struct vial_exec *exec;
    uint64_t at; /* how far its stdout has been read */
    struct str bytes;
    uint64_t cell;
    bool busy; /* under the session's lock */
    bool dead; /* the interpreter has gone, or is not to be trusted any more */
};

/* Everything of a cell that comes before its end. */
struct cell {
    struct str out, err;
    size_t limit;
    bool cut[2];
    json_t *displays;
    size_t display_bytes;
    int interrupts;                 /* of ours, for its deadline */
    bool cancelled;                 /* by us, since the caller gave up */
    const struct vial_watch *watch; /* or NULL */
    int64_t deadline_ns;
};

static int read_harness(struct vial_context *c, struct vial_error *err)
{
    const char *share = c->session->engine->settings->share_dir;
    const char *dot = strrchr(c->language->file, '.');
    bool python = dot && str_eq(dot, ".py");
    auto_free char *path = NULL;
    struct blob text = { 0 };

    if (!python && !(dot && (str_eq(dot, ".js") || str_eq(dot, ".mjs")))) {
        (void)fail(err, VIAL_E_UNSUPPORTED, "open a context of '%s': there is none",
                   c->language->name);
        return fail_remedy(err, "use python or node");
    }
    c->flag = python ? "-c" : "-e";
    path = path_join(share, python ? "runtimes/context.py" : "runtimes/context.js");
    if (!path)
        return fail_memory(err);
    if (io_read_file(path, HARNESS_MAX, &text, err) < 0)
        return -1;
    c->harness = text.data;
    return 0;
}

static int launch(struct vial_context *c, struct vial_error *err)
{
    struct vial_session *s = c->session;
    const char *argv[] = { c->language->run_argv.items[0], c->flag, c->harness, NULL };
    const struct vial_exec_options o = {
        .argv = argv,
        .env = (const char *const *)c->language->env.items,
        .stdin_live = true
    };
    int rc;

    session_lock(s);
    rc = session_touch(s, err);
    if (rc == 0)
        rc = exec_new(s, &o, true, &c->exec, err);
    if (rc == 0)
        session_flush(s);
    session_unlock(s);
    return rc;
}

/* The interpreter's end, in words. */
static int fail_dead(struct vial_context *c, struct vial_error *err)
{
    struct vial_exec_status st;

    c->dead = true;
    if (!c->exec)
        return fail(err, VIAL_E_CONTEXT, "the interpreter of '%s' did not start again",
                    c->language->name);
    vial_exec_wait(c->exec, 1000, &st);
    if (st.error.code[0]) {
        if (err)
            *err = st.error;
        if (st.error.sys == ENOENT)
            return fail_as(err, VIAL_E_INTERPRETER);
        return -1;
    }
    (void)fail(err, VIAL_E_CONTEXT, "the interpreter of '%s' has ended",
               c->language->name);
    if (st.running)
        (void)fail_cause(err, "it closed its stdout");
    else if (st.signal)
        (void)fail_cause(err, "signal %d", st.signal);
    else
        (void)fail_cause(err, "exit code %d", st.exit_code);
    return fail_remedy(err, "restart the context");
}

static int fail_nonsense(struct vial_context *c, const char *why,
                         struct vial_error *err)
{
    c->dead = true;
    (void)fail(err, VIAL_E_CONTEXT, "read from the interpreter of '%s': %s",
               c->language->name, why);
    return fail_remedy(err, "restart the context");
}

/* The first whole frame of what has come: 1, 0 for none yet, -1. */
static int take_frame(struct vial_context *c, json_t **out, struct vial_error *err)
{
    const unsigned char *b = (const unsigned char *)c->bytes.data;
    struct vial_error why = { 0 };
    size_t len;

    if (c->bytes.len < 4)
        return 0;
    len = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
    if (len > FRAME_MAX)
        return fail_nonsense(c, "a frame is too large", err);
    if (c->bytes.len < 4 + len)
        return 0;
    if (json_parse(c->bytes.data + 4, len, "cell", out, &why) < 0)
        return fail_nonsense(c, "a frame is not JSON", err);
    c->bytes.len -= 4 + len;
    memmove(c->bytes.data, c->bytes.data + 4 + len, c->bytes.len);
    return 1;
}

/* Reads on, until UNTIL_NS: 1 when more has come, 0 when that moment has. */
static int read_more(struct vial_context *c, int64_t until_ns, struct vial_error *err)
{
    auto_free char *buf = malloc(PIECE);
    int64_t left_ms = (until_ns - clock_now_ns() + 999999) / 1000000;
    struct vial_chunk chunk;

    if (!buf)
        return fail_memory(err);
    if (vial_exec_read(c->exec, 1, c->at, buf, PIECE, left_ms > 0 ? left_ms : 0, &chunk,
                       err) < 0)
        return -1;
    if (chunk.gap > 0)
        return fail_nonsense(c, "it wrote more than could be kept", err);
    c->at += chunk.len;
    str_add(&c->bytes, buf, chunk.len);
    if (c->bytes.failed)
        return fail_memory(err);
    if (chunk.len == 0 && chunk.end)
        return fail_dead(c, err);
    return chunk.len > 0;
}

/* 1 and a frame, 0 when UNTIL_NS has come, -1. */
static int next_frame(struct vial_context *c, int64_t until_ns, json_t **out,
                      struct vial_error *err)
{
    int rc;

    while ((rc = take_frame(c, out, err)) == 0) {
        rc = read_more(c, until_ns, err);
        if (rc <= 0)
            return rc;
    }
    return rc;
}

static bool is_kind(const json_t *frame, const char *kind)
{
    const char *text = json_string_value(json_object_get(frame, "kind"));

    return text && strcmp(text, kind) == 0;
}

static int await_ready(struct vial_context *c, struct vial_error *err)
{
    auto_json json_t *frame = NULL;
    int rc = next_frame(c, clock_now_ns() + (int64_t)START_MS * 1000000, &frame, err);

    if (rc == 0)
        return fail_nonsense(c, "it does not become ready", err);
    if (rc < 0)
        return -1;
    return is_kind(frame, "ready") ? 0 : fail_nonsense(c, "it is not ready", err);
}

static int find_language(struct vial_context *c, const char *name,
                         struct vial_error *err)
{
    const struct settings *settings = c->session->engine->settings;

    if (language_find(&settings->languages, name, &c->language, err) < 0)
        return -1;
    return policy_check_list(&settings->policy, POLICY_ID_languages, "language",
                             c->language->name, err);
}

int vial_context_open(struct vial_session *session, const char *language,
                      struct vial_context **out, struct vial_error *err)
{
    struct vial_context *c = calloc(1, sizeof *c);

    if (!c)
        return fail_memory(err);
    c->session = session;
    if (find_language(c, language, err) < 0 || read_harness(c, err) < 0 ||
        launch(c, err) < 0 || await_ready(c, err) < 0) {
        vial_context_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

static void add_stream(struct cell *cell, const json_t *frame)
{
    const char *name = json_string_value(json_object_get(frame, "name"));
    const json_t *text = json_object_get(frame, "text");
    bool is_err = name && strcmp(name, "stderr") == 0;
    struct str *s = is_err ? &cell->err : &cell->out;
    size_t len = json_string_length(text), room = cell->limit - s->len;

    if (cell->watch && cell->watch->output && len > 0)
        (void)cell->watch->output(cell->watch->context, is_err ? 2 : 1,
                                  json_string_value(text), len);
    if (cell->cut[is_err] || len == 0)
        return;
    if (len > room) {
        cell->cut[is_err] = true;
        len = room; /* but not in the middle of a letter */
        while (len > 0 && ((unsigned char)json_string_value(text)[len] & 0xc0) == 0x80)
            len--;
    }
    str_add(s, json_string_value(text), len);
}

static int add_display(struct vial_context *c, struct cell *cell, const json_t *frame,
                       struct vial_error *err)
{
    json_t *data = json_object_get(frame, "data");

    if (json_array_size(cell->displays) >= DISPLAYS_MAX ||
        cell->display_bytes > DISPLAY_MAX)
        return fail_nonsense(c, "a cell displays too much", err);
    if (!json_is_object(data))
        return fail_nonsense(c, "a display is no object", err);
    return json_array_append(cell->displays, data) < 0 ? fail_memory(err) : 0;
}

/* The deadline has come: first politely, then not. The interpreter ignores what comes
 * between cells, and may take up this one only now. */
static int press(struct vial_context *c, struct cell *cell, struct vial_error *err)
{
    if (cell->interrupts < INTERRUPTS && !cell->cancelled) {
        cell->interrupts++;
        cell->deadline_ns = clock_now_ns() + (int64_t)GRACE_MS * 1000000;
        return vial_exec_signal(c->exec, SIGINT, false, err);
    }
    (void)!vial_exec_signal(c->exec, SIGKILL, true, NULL);
    return fail_nonsense(c, "the cell did not stop at its deadline", err);
}

/* A caller that gave up is like a deadline, only sooner. */
static int look_after_caller(struct vial_context *c, struct cell *cell,
                             struct vial_error *err)
{
    struct pollfd p = { .fd = cell->watch->cancel_fd, .events = POLLIN };

    if (cell->cancelled || poll(&p, 1, 0) <= 0)
        return 0;
    cell->cancelled = true;
    cell->deadline_ns = clock_now_ns() + (int64_t)CANCEL_MS * 1000000;
    return vial_exec_signal(c->exec, SIGINT, false, err);
}

/* The next frame, or 0 when it is time to look around. */
static int next_or_look(struct vial_context *c, struct cell *cell, json_t **frame,
                        struct vial_error *err)
{
    int64_t look_ns = clock_now_ns() + (int64_t)LOOK_MS * 1000000;
    bool watched = cell->watch && cell->watch->cancel_fd >= 0;
    int rc;

    if (!watched || look_ns > cell->deadline_ns)
        look_ns = cell->deadline_ns;
    rc = next_frame(c, look_ns, frame, err);
    if (rc < 0 || !watched)
        return rc;
    return look_after_caller(c, cell, err) < 0 ? -1 : rc;
}

/* Takes frames until the cell is done; *DONE is the last one. */
static int follow(struct vial_context *c, struct cell *cell, json_t **done,
                  struct vial_error *err)
{
    for (;;) {
        auto_json json_t *frame = NULL;
        size_t before = c->bytes.len;
        int rc = next_or_look(c, cell, &frame, err);

        if (rc < 0)
            return -1;
        if (rc == 0) {
            if (clock_now_ns() >= cell->deadline_ns && press(c, cell, err) < 0)
                return -1;
            continue;
        }
        if (is_kind(frame, "done")) {
            *done = json_incref(frame);
            return 0;
        }
        if (is_kind(frame, "stream")) {
            add_stream(cell, frame);
            continue;
        }
        cell->display_bytes += before > c->bytes.len ? before - c->bytes.len : PIECE;
        if (add_display(c, cell, frame, err) < 0)
            return -1;
    }
}

static int send_cell(struct vial_context *c, const char *code, size_t len,
                     struct vial_error *err)
{
    auto_json json_t *request =
        json_pack("{s:I, s:s%}", "id", (json_int_t)++c->cell, "code", code, len);
    auto_free char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    struct str frame = { 0 };
    size_t size, taken;
    int rc;

    if (!text)
        return fail(err, VIAL_E_VALUE,
                    "run a cell: its code is not UTF-8, or holds NUL");
    size = strlen(text);
    for (int shift = 24; shift >= 0; shift -= 8)
        str_putc(&frame, (char)(size >> shift));
    str_add(&frame, text, size);
    if (!str_ok(&frame))
        return fail_memory(err);
    rc = vial_exec_write(c->exec, frame.data, frame.len, START_MS, &taken, err);
    if (rc == 0 && taken < frame.len)
        rc = fail_nonsense(c, "it does not take its code", err);
    str_done(&frame);
    return rc;
}

static json_t *status_of(const struct cell *cell, const json_t *done)
{
    const char *status = json_string_value(json_object_get(done, "status"));

    if (!status || (strcmp(status, "ok") != 0 && strcmp(status, "interrupted") != 0))
        status = "error";
    if (cell->interrupts > 0 && strcmp(status, "interrupted") == 0)
        status = "timeout";
    return json_string(status);
}

/* An object, or null. */
static json_t *object_of(const json_t *done, const char *key)
{
    json_t *value = json_object_get(done, key);

    return json_is_object(value) ? json_incref(value) : json_null();
}

static char *result_text(const struct cell *cell, const json_t *done)
{
    auto_json json_t *result = json_pack(
        "{s:o, s:s%, s:s%, s:b, s:b, s:o, s:O, s:o}", "status", status_of(cell, done),
        "stdout", cell->out.data ? cell->out.data : "", cell->out.len, "stderr",
        cell->err.data ? cell->err.data : "", cell->err.len, "stdout_truncated",
        (int)cell->cut[0], "stderr_truncated", (int)cell->cut[1], "value",
        object_of(done, "value"), "displays", cell->displays, "error",
        object_of(done, "error"));

    return result ? json_dumps(result, JSON_COMPACT) : NULL;
}

/* CELL has its watch; the rest of it is filled here. */
static int run_cell(struct vial_context *c, struct cell *cell, const char *code,
                    size_t len, char **json, struct vial_error *err)
{
    auto_json json_t *done = NULL;
    int rc = -1;

    cell->limit = (size_t)c->session->plan->limits.output_bytes;
    cell->displays = json_array();
    if (!cell->displays)
        (void)fail_memory(err);
    else if (send_cell(c, code, len, err) == 0 && follow(c, cell, &done, err) == 0) {
        *json = result_text(cell, done);
        rc = *json ? 0 : fail_memory(err);
    }
    str_done(&cell->out);
    str_done(&cell->err);
    json_decref(cell->displays);
    return rc;
}

static int enter(struct vial_context *c, struct vial_error *err)
{
    int rc;

    session_lock(c->session);
    rc = session_touch(c->session, err);
    if (rc == 0 && c->busy)
        rc = fail(err, VIAL_E_BUSY, "run a cell: another one is running");
    if (rc == 0)
        c->busy = true;
    session_unlock(c->session);
    return rc;
}

static void leave(struct vial_context *c)
{
    session_lock(c->session);
    c->busy = false;
    session_unlock(c->session);
}

int vial_context_run(struct vial_context *context, const char *code, size_t len,
                     int64_t timeout_ms, char **json, struct vial_error *err)
{
    return vial_context_watch(context, code, len, timeout_ms, NULL, json, err);
}

/* NOLINTNEXTLINE(readability-function-size): code, its time, and who follows it */
int vial_context_watch(struct vial_context *context, const char *code, size_t len,
                       int64_t timeout_ms, const struct vial_watch *watch, char **json,
                       struct vial_error *err)
{
    int64_t most = context->session->plan->limits.wall_ms;
    struct cell cell = { .watch = watch };
    int rc;

    if (timeout_ms < 0 || timeout_ms > most) {
        (void)fail(err, VIAL_E_CAP,
                   "timeout %" PRId64 " ms of the cell is not in 0 … %" PRId64,
                   timeout_ms, most);
        return fail_remedy(err, "open the session with a larger 'timeout'");
    }
    if (enter(context, err) < 0)
        return -1;
    cell.deadline_ns = clock_now_ns() + (timeout_ms ? timeout_ms : most) * 1000000;
    if (context->dead)
        rc = fail_dead(context, err);
    else
        rc = run_cell(context, &cell, code, len, json, err);
    leave(context);
    return rc;
}

int vial_context_interrupt(struct vial_context *context, struct vial_error *err)
{
    return context->exec ? vial_exec_signal(context->exec, SIGINT, false, err)
                         : fail_dead(context, err);
}

int vial_context_restart(struct vial_context *context, struct vial_error *err)
{
    int rc;

    if (enter(context, err) < 0)
        return -1;
    vial_exec_free(ptr_take(&context->exec));
    context->at = 0;
    context->bytes.len = 0;
    context->dead = false;
    rc = launch(context, err);
    if (rc == 0)
        rc = await_ready(context, err);
    context->dead = rc < 0;
    leave(context);
    return rc;
}

void vial_context_close(struct vial_context *context)
{
    if (!context)
        return;
    vial_exec_free(context->exec);
    str_done(&context->bytes);
    free(context->harness);
    free(context);
}
