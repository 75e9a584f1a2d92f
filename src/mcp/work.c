/* SPDX-License-Identifier: Apache-2.0 */

/* A call at work: what it knows of its caller, and what it tells it meanwhile. */

#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "mcp/core.h"
#include "mcp/remedies.h"

/* A program that prints a lot must not turn into as many messages: so many may go
 * at once, and so many more each second. */
#define TURNS_MOST  64.0
#define TURNS_PER_S 20.0
#define HELD_MAX    (16u << 10)  /* text of one message */
#define TOLD_MAX    (256u << 10) /* text of all of them */

static void tell_text(struct mcp_call *call, const char *text, size_t len);

int work_init(struct work *w, struct mcp_exchange *x, const struct era *era)
{
    json_t *params = x->message->params;
    const json_t *meta = json_object_get(params, "_meta");
    json_t *arguments;

    if (!json_object_get(params, "arguments") &&
        json_object_set_new(params, "arguments", json_object()) < 0)
        return -1;
    arguments = json_object_get(params, "arguments");
    *w = (struct work){ .public = { .arguments = arguments,
                                    .engine = x->mcp->options.engine,
                                    .registry = x->mcp->options.registry,
                                    .runs = x->mcp->options.runs,
                                    .owner = x->owner,
                                    .correlation = x->correlation,
                                    .gate = &x->mcp->options.gate,
                                    .cancel_fd = x->cancel_fd,
                                    .progress = tell_text },
                        .mcp = x->mcp,
                        .params = json_incref(params),
                        .capabilities = json_incref(era->capabilities),
                        .token = json_incref(json_object_get(meta, "progressToken")),
                        .modern = era->modern,
                        .x = x,
                        .turns = TURNS_MOST,
                        .turns_ns = clock_now_ns() };
    w->log_level = w->modern ? peer_log_level(rpc_text(meta, MCP_META "logLevel")) : -1;
    w->public.core = w;
    return 0;
}

void work_done(struct work *w)
{
    json_decref(w->params);
    json_decref(w->capabilities);
    json_decref(w->token);
    str_done(&w->held);
}

void mcp_tell_refused(struct mcp *mcp, const char *owner, const struct vial_error *why)
{
    const struct mcp_gate *gate = &mcp->options.gate;
    const struct mcp_call call = { .owner = owner, .cancel_fd = -1 };

    if (gate->refused)
        gate->refused(gate->context, &call, why);
}

void work_refuse(struct work *w, const struct vial_error *err,
                 struct mcp_answer *answer)
{
    const struct mcp_gate *gate = &w->mcp->options.gate;
    const char *remedy;

    if (gate->refused)
        gate->refused(gate->context, &w->public, err);
    if (w->tool->refuse) {
        w->tool->refuse(w->tool, &w->public, err, answer);
        return;
    }
    answer->is_error = true;
    str_printf(&answer->text, "Error %s: %s. Nothing was run.", err->code,
               err->message);
    remedy = mcp_remedy(err);
    if (remedy[0])
        str_printf(&answer->text, "\nRemedy: %s.", remedy);
}

void work_call(struct work *w, struct mcp_answer *answer)
{
    const struct mcp_gate *gate = &w->mcp->options.gate;
    struct gate_pass pass = { 0 };
    struct vial_error err = { 0 };
    bool gated = gate->enter && w->tool->runs;

    if (gated && gate->enter(gate->context, &w->public, &pass, &err) < 0) {
        work_refuse(w, &err, answer);
        return;
    }
    w->public.queued_ms = pass.queue_ms;
    w->tool->call(w->tool, &w->public, answer);
    if (gated)
        gate->leave(gate->context, &pass, w->public.cpu_ms);
}

int mcp_tell_pull(void *context, const char *layer, const char *status,
                  unsigned long long current, unsigned long long total)
{
    struct mcp_call *call = context;
    char line[256];
    int len =
        snprintf(line, sizeof line, "%s%s%s\n", status, layer[0] ? " " : "", layer);

    (void)current;
    (void)total;
    call->progress(call, line, len > 0 && (size_t)len < sizeof line ? (size_t)len : 0);
    return 0;
}

void *mcp_run_begin(const struct mcp_call *call, const char *language,
                    struct vial_watch *watch)
{
    const struct mcp_gate *gate = call->gate;

    watch->caller = call->owner[0] ? call->owner : NULL;
    watch->correlation = call->correlation;
    watch->cancel_fd = call->cancel_fd;
    watch->queued_ms = call->queued_ms;
    watch->pulling = mcp_tell_pull;
    if (!gate || !gate->begin)
        return NULL;
    return gate->begin(gate->context, call, language ? language : "",
                       &watch->cancel_fd);
}

void mcp_run_end(struct mcp_call *call, void *run, const struct vial_result *result)
{
    if (result)
        call->cpu_ms += result->usage.cpu_user_ms + result->usage.cpu_system_ms;
    if (run)
        call->gate->end(call->gate->context, run, result);
}

static void send_out(struct work *w, json_t *message)
{
    if (!message)
        return;
    if (w->task)
        task_send(w->task, message);
    else
        w->x->send(w->x, message);
}

static void send_progress(struct work *w, const struct str *text)
{
    json_t *params =
        json_pack("{s:O, s:I}", "progressToken", w->token, "progress", w->progress++);

    if (params && text->len > 0)
        (void)json_object_set_new(params, "message",
                                  json_stringn(text->data, text->len));
    send_out(w, rpc_notification("notifications/progress", params));
}

static bool take_turn(struct work *w)
{
    int64_t now_ns = clock_now_ns();

    w->turns += (double)(now_ns - w->turns_ns) * 1e-9 * TURNS_PER_S;
    w->turns_ns = now_ns;
    if (w->turns > TURNS_MOST)
        w->turns = TURNS_MOST;
    if (w->turns < 1)
        return false;
    w->turns -= 1;
    return true;
}

/* Live output. What comes too fast waits for the next piece; the result has all. */
static void tell_text(struct mcp_call *call, const char *text, size_t len)
{
    struct work *w = call->core;
    struct str shown = { 0 };
    size_t room = HELD_MAX - w->held.len;

    if (!w->token)
        return;
    if (w->told + w->held.len > TOLD_MAX)
        room = 0;
    str_add(&w->held, text, len < room ? len : room);
    if (!take_turn(w))
        return;
    text_repair(&shown, w->held.data ? w->held.data : "", w->held.len);
    if (str_ok(&shown))
        send_progress(w, &shown);
    w->told += w->held.len;
    w->held.len = 0;
    str_done(&shown);
}

static bool wants_log(struct work *w, int level)
{
    if (w->modern)
        return w->log_level >= 0 && level >= w->log_level;
    return w->x && w->x->peer && peer_wants(w->x->peer, level);
}

void mcp_call_log(struct mcp_call *call, const char *level, json_t *data)
{
    struct work *w = call->core;
    int number = peer_log_level(level);

    if (number < 0 || !w || !wants_log(w, number)) {
        json_decref(data);
        return;
    }
    send_out(w, rpc_notification("notifications/message",
                                 json_pack("{s:s, s:s, s:o}", "level", level, "logger",
                                           w->mcp->options.name, "data", data)));
}
