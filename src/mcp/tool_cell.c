/* SPDX-License-Identifier: Apache-2.0 */

/* Cells: code for an interpreter of a sandbox that remembers, told like a run. */

#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/sys.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"
#include "model/result.h"

#define COPIES 3u /* of a cell's answer: the text, its tree, the result */

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

/* The bytes of so many CHARACTERS of TEXT. */
static size_t bytes_of(const char *text, size_t len, size_t characters)
{
    size_t i = 0;

    while (i < len && characters > 0) {
        characters--;
        for (i++; i < len && ((unsigned char)text[i] & 0xc0) == 0x80;)
            i++;
    }
    return i;
}

static bool has_image(const json_t *display)
{
    const char *key;
    json_t *data;

    json_object_foreach((json_t *)(uintptr_t)display, key, data)
    {
        if (tool_is_image(key))
            return true;
    }
    return false;
}

/* A display among what was printed: its text, or the place of its picture. */
static void say_display(struct str *all, const json_t *display, size_t *figures)
{
    const json_t *text = json_object_get(display, "text/plain");

    if (has_image(display))
        str_printf(all, "[figure %zu]\n", ++*figures);
    else if (json_is_string(text))
        str_printf(all, "%s\n", json_string_value(text));
}

/* What a notebook would show: stdout and displays, as they came. */
static int copy_shown(const json_t *cell, struct vial_stream *to)
{
    const json_t *out = json_object_get(cell, "stdout");
    const json_t *displays = json_object_get(cell, "displays");
    const char *text = json_string_value(out);
    size_t len = json_string_length(out), at = 0, shown = 0, figures = 0, i;
    auto_str struct str all = { 0 };
    json_t *piece;

    json_array_foreach(json_object_get(cell, "order"), i, piece)
    {
        const char *kind = json_string_value(json_object_get(piece, "kind"));
        size_t n = (size_t)json_integer_value(json_object_get(piece, "length"));

        if (str_eq(kind, "stdout")) {
            n = bytes_of(text + at, len - at, n);
            str_add(&all, text + at, n);
            at += n;
        }
        for (; str_eq(kind, "display") && n > 0; n--)
            say_display(&all, json_array_get(displays, shown++), &figures);
    }
    str_add(&all, text + at, len - at);
    while (shown < json_array_size(displays))
        say_display(&all, json_array_get(displays, shown++), &figures);
    if (all.failed)
        return -1;
    return tool_stream(to, all.data ? all.data : "", all.len, all.len,
                       json_is_true(json_object_get(cell, "stdout_truncated")));
}

/* Adds what an uncaught exception would have written. */
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
    if (copy_shown(cell, &r->out) < 0 ||
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

    if (!fail_is(err, VIAL_E_CONTEXT))
        return -1;
    if (vial_context_restart(context, &ignored) < 0)
        return fail_remedy(err, "it could not be started anew: create another sandbox");
    return fail_remedy(err, "the interpreter was started anew, and its variables are "
                            "gone: define them again");
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
                                      .output = tool_pass_on,
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
