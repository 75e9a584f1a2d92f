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
#include "mcp/own.h"
#include "model/result.h"

#define KEPT_MAX (1u << 20) /* bytes of a stream that are read back */
#define LOOK_MS  10
#define PIECE    (16u << 10)

struct followed {
    struct mcp_call *call;
    struct vial_exec *exec;
    uint64_t told[2]; /* offsets up to which the caller knows the streams */
    bool cancelled;
};

/* Tells what has come since; a gap is no matter, the result will name it. */
static void tell(struct followed *f)
{
    auto_free char *buf = malloc(PIECE);
    struct vial_chunk chunk;

    for (int stream = 1; buf && stream <= 2; stream++) {
        uint64_t *at = &f->told[stream - 1];

        if (vial_exec_read(f->exec, stream, *at, buf, PIECE, 0, &chunk, NULL) < 0 ||
            chunk.len == 0)
            continue;
        *at = chunk.offset + chunk.len;
        f->call->progress(f->call, buf, chunk.len);
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
        tell(f);
        if (status->running && !f->cancelled && gave_up(f->call)) {
            f->cancelled = true;
            (void)!vial_exec_signal(f->exec, SIGKILL, true, NULL);
        }
    } while (status->running);
}

/* Appends LEN bytes of a stream from OFFSET on. */
static int read_part(struct vial_exec *exec, int stream, uint64_t offset, uint64_t len,
                     struct str *out, struct vial_error *err)
{
    auto_free char *buf = malloc(PIECE);
    uint64_t end = offset + len;
    struct vial_chunk chunk;

    if (!buf)
        return fail_memory(err);
    while (offset < end) {
        size_t size = end - offset < PIECE ? (size_t)(end - offset) : PIECE;

        if (vial_exec_read(exec, stream, offset, buf, size, 0, &chunk, err) < 0)
            return -1;
        if (chunk.len == 0)
            break;
        str_add(out, buf, chunk.len);
        offset = chunk.offset + chunk.len;
    }
    return 0;
}

/* Of a long stream its head and its tail. */
static int read_stream(struct vial_exec *exec, int stream, uint64_t total,
                       struct vial_stream *to, struct vial_error *err)
{
    auto_str struct str data = { 0 };
    bool cut = total > KEPT_MAX;
    uint64_t part = cut ? KEPT_MAX / 2 : total;

    if (read_part(exec, stream, 0, part, &data, err) < 0)
        return -1;
    if (cut) {
        str_printf(&data, "\n[… %llu bytes left out …]\n",
                   (unsigned long long)(total - KEPT_MAX));
        if (read_part(exec, stream, total - part, part, &data, err) < 0)
            return -1;
    }
    if (data.failed || own_stream(to, data.data, data.len, total, cut) < 0)
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

static int fill(struct vial_result *r, struct vial_exec *exec,
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
    if (read_stream(exec, 1, st->stdout_bytes, &r->out, err) < 0)
        return -1;
    return read_stream(exec, 2, st->stderr_bytes, &r->err, err);
}

int own_exec(struct mcp_call *call, struct registered *held,
             const struct own_program *program, struct vial_result **out,
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
    follow(&f, &status);
    rc = fill(r, f.exec, &status, err);
    if (rc == 0 && f.cancelled)
        r->verdict = VIAL_CANCELLED;
    vial_exec_free(f.exec);
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

    return own_stream(to, json_string_value(text), len, len,
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
    return own_stream(to, all.data, all.len, all.len, to->truncated);
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

int own_cell(struct mcp_call *call, struct registered *held, const char *language,
             int64_t timeout_ms, struct own_ran *out, struct vial_error *err)
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
    if (json_parse(text, strlen(text), "cell", &out->cell, err) < 0 ||
        fill_cell(r, out->cell, err) < 0)
        return -1;
    out->result = ptr_take(&r);
    return 0;
}
