/* SPDX-License-Identifier: Apache-2.0 */

/* Programs and cells in a sandbox, followed like a run of their own. */

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/sys.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"
#include "model/result.h"

#define HALF    ((size_t)512 << 10) /* of a stream: its head, and its tail */
#define LOOK_MS 10
#define PIECE   (16u << 10)
#define COPIES  3u /* of a cell's answer: the text, its tree, the result */

/* Of a long stream its head and its tail. */
struct gathered {
    struct str head, tail; /* the tail may be up to twice as long as it will be */
    uint64_t at;           /* offset up to which the stream was read */
};

struct followed {
    struct mcp_call *call;
    struct vial_exec *exec;
    struct gathered streams[2];
    bool cancelled;
};

static void cut_tail(struct str *tail)
{
    if (tail->len <= HALF)
        return;
    memmove(tail->data, tail->data + tail->len - HALF, HALF);
    tail->len = HALF;
}

static void gather(struct gathered *g, const char *data, size_t len)
{
    size_t room = HALF - g->head.len;
    size_t first = len < room ? len : room;

    str_add(&g->head, data, first);
    str_add(&g->tail, data + first, len - first);
    if (g->tail.len > 2 * HALF)
        cut_tail(&g->tail);
}

/* Takes what has come since, and tells it. */
static void take(struct followed *f)
{
    auto_free char *buf = malloc(PIECE);
    struct vial_chunk chunk;

    for (int i = 0; buf && i < 2; i++) {
        struct gathered *g = &f->streams[i];

        do {
            if (vial_exec_read(f->exec, i + 1, g->at, buf, PIECE, 0, &chunk, NULL) < 0)
                break;
            g->at = chunk.offset + chunk.len;
            gather(g, buf, chunk.len);
            if (chunk.len > 0)
                f->call->progress(f->call, buf, chunk.len);
        } while (chunk.len == PIECE);
    }
}

static bool gave_up(const struct mcp_call *call)
{
    struct pollfd p = { .fd = call->cancel_fd, .events = POLLIN };

    return poll(&p, 1, 0) > 0;
}

static void follow(struct followed *f, struct vial_exec_status *status)
{
    do {
        vial_exec_wait(f->exec, LOOK_MS, status);
        take(f);
        if (status->running && !f->cancelled && gave_up(f->call)) {
            f->cancelled = true;
            (void)!vial_exec_signal(f->exec, SIGKILL, true, NULL);
        }
    } while (status->running);
}

static int put_stream(struct gathered *g, uint64_t total, struct vial_stream *to,
                      struct vial_error *err)
{
    uint64_t missing;

    cut_tail(&g->tail);
    missing = total - g->head.len - g->tail.len;
    if (missing > 0)
        str_printf(&g->head, "\n[… %llu bytes left out …]\n",
                   (unsigned long long)missing);
    str_add(&g->head, g->tail.data ? g->tail.data : "", g->tail.len);
    if (g->head.failed || g->tail.failed ||
        tool_stream(to, g->head.data, g->head.len, total, missing > 0) < 0)
        return fail_memory(err);
    return 0;
}

/* A result that has what is known of a sandbox. */
static struct vial_result *result_in(struct registered *held)
{
    struct vial_result *r = result_new();
    struct vial_session_report report;

    if (!r)
        return NULL;
    sys_make_id('r', r->id);
    vial_session_look(held->session, &report);
    (void)memcpy(r->driver, report.driver, sizeof r->driver);
    (void)memcpy(r->vessel_id, report.vessel_id, sizeof r->vessel_id);
    (void)memcpy(r->level, report.level, sizeof r->level);
    (void)memcpy(r->limits_by, report.limits_by, sizeof r->limits_by);
    return r;
}

static int fill(struct vial_result *r, struct followed *f,
                const struct vial_exec_status *st, struct vial_error *err)
{
    r->verdict = st->verdict;
    r->exit_code = st->exit_code;
    r->signal = st->signal;
    r->duration_ms = r->timing.run_ms = st->duration_ms;
    r->usage.cpu_user_ms = st->cpu_user_ms;
    r->usage.cpu_system_ms = st->cpu_system_ms;
    r->usage.memory_peak_bytes = st->memory_peak_bytes;
    r->network_refused = st->network_refused;
    r->error = st->error;
    if (put_stream(&f->streams[0], st->stdout_bytes, &r->out, err) < 0)
        return -1;
    return put_stream(&f->streams[1], st->stderr_bytes, &r->err, err);
}

int tool_exec(struct mcp_call *call, struct registered *held,
              const struct tool_program *program, struct vial_result **out,
              struct vial_error *err)
{
    struct vial_exec_options o = { .argv = program->argv,
                                   .env = program->env,
                                   .cwd = program->cwd,
                                   .stdin_data = program->stdin_text,
                                   .stdin_len = program->stdin_text
                                                    ? strlen(program->stdin_text)
                                                    : 0,
                                   .timeout_ms = program->timeout_ms,
                                   .correlation = call->correlation };
    auto_result struct vial_result *r = result_in(held);
    struct followed f = { .call = call };
    struct vial_exec_status status;
    int rc;

    if (!r)
        return fail_memory(err);
    if (vial_session_exec(held->session, &o, &f.exec, err) < 0)
        return -1;
    vial_exec_follow(f.exec, NULL);
    follow(&f, &status);
    rc = fill(r, &f, &status, err);
    if (rc == 0 && f.cancelled)
        r->verdict = VIAL_CANCELLED;
    vial_exec_free(f.exec);
    for (int i = 0; i < 2; i++) {
        str_done(&f.streams[i].head);
        str_done(&f.streams[i].tail);
    }
    if (rc == 0)
        *out = ptr_take(&r);
    return rc;
}

static int pass_on(void *context, int stream, const void *data, size_t len)
{
    struct mcp_call *call = context;

    (void)stream;
    call->progress(call, data, len);
    return 0;
}

static enum vial_verdict verdict_of(const char *status)
{
    static const struct {
        const char *status;
        enum vial_verdict verdict;
    } rows[] = { { "ok", VIAL_OK },
                 { "error", VIAL_NONZERO },
                 { "interrupted", VIAL_CANCELLED },
                 { "timeout", VIAL_TIMEOUT } };

    for (size_t i = 0; status && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].status, status) == 0)
            return rows[i].verdict;
    return VIAL_FAILED;
}

static int copy_stream(const json_t *cell, const char *name, const char *cut,
                       struct vial_stream *to)
{
    const json_t *text = json_object_get(cell, name);
    size_t len = json_string_length(text);

    return tool_stream(to, json_string_value(text), len, len,
                       json_is_true(json_object_get(cell, cut)));
}

/* What an uncaught exception would have written. */
static int add_traceback(const json_t *cell, struct vial_stream *to)
{
    const json_t *text = json_object_get(json_object_get(cell, "error"), "traceback");
    auto_str struct str all = { 0 };

    if (!json_is_string(text))
        return 0;
    str_add(&all, to->data, to->len);
    str_add(&all, json_string_value(text), json_string_length(text));
    if (!str_ok(&all))
        return -1;
    return tool_stream(to, all.data, all.len, all.len, to->truncated);
}

static int fill_cell(struct vial_result *r, const json_t *cell, struct vial_error *err)
{
    r->verdict = verdict_of(json_string_value(json_object_get(cell, "status")));
    if (r->verdict == VIAL_OK || r->verdict == VIAL_NONZERO)
        r->exit_code = r->verdict == VIAL_OK ? 0 : 1;
    if (copy_stream(cell, "stdout", "stdout_truncated", &r->out) < 0 ||
        copy_stream(cell, "stderr", "stderr_truncated", &r->err) < 0 ||
        add_traceback(cell, &r->err) < 0)
        return fail_memory(err);
    return 0;
}

/* An interpreter that died or had to be killed is replaced, so that the next cell
 * finds one; what it knew is gone, and the caller is told. */
static int revive(struct vial_context *context, struct vial_error *err)
{
    struct vial_error ignored = { 0 };

    if (strcmp(err->code, fail_code_text(VIAL_E_CONTEXT)) == 0 &&
        vial_context_restart(context, &ignored) == 0)
        return fail_remedy(err, "the interpreter was started anew, and its variables "
                                "are gone: define them again");
    return -1;
}

static int pay(const struct mcp_call *call, struct vial_result *r, size_t len,
               struct vial_error *err)
{
    if (call->gate)
        result_charged_to(r, call->gate->budget, call->owner);
    if (result_charge(r, COPIES * (uint64_t)len))
        return 0;
    (void)fail(err, VIAL_E_BUSY, "there is no memory left for this answer");
    return fail_remedy(err, "try again when other answers were read");
}

int tool_cell(struct mcp_call *call, struct registered *held, const char *language,
              int64_t timeout_ms, struct tool_ran *out, struct vial_error *err)
{
    const json_t *code = json_object_get(call->arguments, "code");
    const struct vial_watch watch = { .cancel_fd = call->cancel_fd,
                                      .stdin_fd = -1,
                                      .output = pass_on,
                                      .context = call,
                                      .correlation = call->correlation };
    auto_result struct vial_result *r = result_in(held);
    struct vial_context *context;
    auto_free char *text = NULL;
    int64_t begun_ns = clock_now_ns();

    if (!r)
        return fail_memory(err);
    if (registered_context(held, language, "", &context, err) < 0)
        return -1;
    if (vial_context_watch(context, json_string_value(code), json_string_length(code),
                           timeout_ms, &watch, &text, err) < 0)
        return revive(context, err);
    r->duration_ms = r->timing.run_ms = clock_ms_between(begun_ns, clock_now_ns());
    if (pay(call, r, strlen(text), err) < 0 ||
        json_parse(text, strlen(text), "cell", &out->cell, err) < 0 ||
        fill_cell(r, out->cell, err) < 0)
        return -1;
    out->result = ptr_take(&r);
    return 0;
}
