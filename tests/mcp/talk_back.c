/* SPDX-License-Identifier: Apache-2.0 */
#include "talk_back.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/sys.h"
#include "mcp/http_parts.h"
#include "mcp/task.h"

/* A request to the client, or input for a task, that somebody waits for. */
struct waiting {
    struct waiting *next;
    char id[40];       /* of the request, or the task */
    int answered_fd;   /* an eventfd, for requests */
    json_t *answer;    /* the whole response, or the input so far */
    struct task *task; /* NULL: a request */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for what follows */
static struct waiting *all;

static void join(struct waiting *w)
{
    (void)pthread_mutex_lock(&lock);
    w->next = all;
    all = w;
    (void)pthread_mutex_unlock(&lock);
}

static void leave(struct waiting *w)
{
    struct waiting **at = &all;

    (void)pthread_mutex_lock(&lock);
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    (void)pthread_mutex_unlock(&lock);
}

static struct work *work_of(const struct mcp_call *call)
{
    return call->core;
}

const json_t *talk_params(const struct mcp_call *call)
{
    return work_of(call)->params;
}

const json_t *talk_capabilities(const struct mcp_call *call)
{
    return work_of(call)->capabilities;
}

void talk_progress(struct mcp_call *call, int progress, int total)
{
    struct work *w = work_of(call);

    if (w->token)
        w->x->send(w->x, rpc_notification("notifications/progress",
                                          json_pack("{s:O, s:i, s:i}", "progressToken",
                                                    w->token, "progress", progress,
                                                    "total", total)));
}

static int read_answer(json_t *answer, json_t **out, struct rpc_error *err)
{
    json_t *result = json_object_get(answer, "result");
    const char *why = rpc_text(json_object_get(answer, "error"), "message");

    if (!result)
        return rpc_fail(err, RPC_INTERNAL, 0, NULL, "the client refused: %.200s",
                        why ? why : "no reason given");
    *out = json_incref(result);
    return 0;
}

int talk_ask(struct mcp_call *call, const char *method, json_t *params, json_t **out,
             struct rpc_error *err)
{
    struct work *w = work_of(call);
    auto_fd int fd = eventfd(0, EFD_CLOEXEC);
    struct waiting waiting = { .answered_fd = fd };
    struct pollfd p[] = { { .fd = fd, .events = POLLIN },
                          { .fd = call->cancel_fd, .events = POLLIN } };
    json_t *message = rpc_notification(method, params);
    int rc;

    if (w->modern) {
        json_decref(message);
        return rpc_fail(err, RPC_INTERNAL, 0, NULL,
                        "servers send no requests in this protocol version");
    }
    sys_make_id('q', waiting.id);
    (void)json_object_set_new(message, "id", json_string(waiting.id));
    join(&waiting);
    w->x->send(w->x, message);
    (void)poll(p, 2, -1);
    leave(&waiting);
    rc = waiting.answer ? read_answer(waiting.answer, out, err)
                        : rpc_fail(err, RPC_INTERNAL, 0, NULL, "it was cancelled");
    json_decref(waiting.answer);
    return rc;
}

bool talk_may_become_task(const struct mcp_call *call)
{
    return work_of(call)->modern && !work_of(call)->task;
}

void talk_become_task(struct mcp_call *call, struct mcp_answer *answer)
{
    struct work *w = work_of(call);

    if (!task_is_known(w->capabilities))
        (void)task_fail_unknown(&answer->error);
    else
        (void)task_run(w, &answer->result, &answer->error);
}

void talk_await_told(const struct mcp_call *call)
{
    struct task *task = work_of(call)->task;
    struct pollfd p = { .fd = call->cancel_fd, .events = POLLIN };
    bool attached = task != NULL;

    while (attached && poll(&p, 1, 5) == 0) {
        (void)pthread_mutex_lock(&task->mcp->lock);
        attached = task->attached;
        (void)pthread_mutex_unlock(&task->mcp->lock);
    }
}

int talk_input(struct mcp_call *call, json_t *requests, json_t **out)
{
    struct task *task = work_of(call)->task;
    struct waiting waiting = { .answer = json_object(), .task = task };
    struct mcp *mcp = task->mcp;
    bool given;

    (void)snprintf(waiting.id, sizeof waiting.id, "%s", task->id);
    join(&waiting);
    (void)pthread_mutex_lock(&mcp->lock);
    task->asked = requests;
    (void)task_set_status(task, TASK_INPUT);
    while (task->status == TASK_INPUT)
        (void)pthread_cond_wait(&mcp->changed, &mcp->lock);
    given = task->status == TASK_WORKING;
    (void)pthread_mutex_unlock(&mcp->lock);
    leave(&waiting);
    if (given)
        *out = waiting.answer;
    else
        json_decref(waiting.answer);
    return given ? 0 : -1;
}

/* With our lock held. */
static struct waiting *find(const char *id, bool task)
{
    for (struct waiting *w = all; w && id; w = w->next)
        if (!w->task == !task && strcmp(w->id, id) == 0)
            return w;
    return NULL;
}

static void take_response(const struct rpc_message *m)
{
    const uint64_t one = 1;
    struct waiting *w;

    (void)pthread_mutex_lock(&lock);
    w = find(json_string_value(m->id), false);
    if (w && !w->answer) {
        w->answer = json_incref(m->whole);
        (void)!write(w->answered_fd, &one, sizeof one);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* With the server's lock held, too. */
static void add_input(struct waiting *w, json_t *responses)
{
    const char *key;
    json_t *value;

    if (w->task->status != TASK_INPUT)
        return;
    json_object_foreach(responses, key, value)
    {
        if (json_object_get(w->task->asked, key)) {
            (void)json_object_set(w->answer, key, value);
            (void)json_object_del(w->task->asked, key);
        }
    }
    if (json_object_size(w->task->asked) == 0)
        (void)task_set_status(w->task, TASK_WORKING);
}

static void take_input(struct mcp *mcp, const struct rpc_message *m)
{
    struct waiting *w;

    (void)pthread_mutex_lock(&lock);
    w = find(rpc_text(m->params, "taskId"), true);
    (void)pthread_mutex_lock(&mcp->lock);
    if (w)
        add_input(w, json_object_get(m->params, "inputResponses"));
    (void)pthread_mutex_unlock(&mcp->lock);
    (void)pthread_mutex_unlock(&lock);
}

static const struct mcp_tool *tool_of(const struct mcp *mcp,
                                      const struct rpc_message *m)
{
    const struct mcp_tools *tools = mcp->options.tools;
    const char *name = rpc_text(m->params, "name");

    for (size_t i = 0; name && i < tools->count; i++)
        if (strcmp(tools->items[i].name, name) == 0)
            return &tools->items[i];
    return NULL;
}

/* Whether the header NAME says VALUE, and is there only if that is. */
static bool repeats(const struct web_request *req, const char *name,
                    const json_t *value)
{
    const char *said = web_header(req, name);
    auto_free char *text = NULL;

    if (!value || json_is_null(value))
        return !said;
    if (json_is_string(value))
        text = strdup(json_string_value(value));
    else
        text = json_dumps(value, JSON_ENCODE_ANY);
    return said && !web_header_repeated(req, name) && http_header_says(said, text);
}

static bool check_params(const struct mcp *mcp, const struct web_request *req,
                         const struct rpc_message *m, struct rpc_error *err)
{
    const struct mcp_tool *tool = tool_of(mcp, m);
    const json_t *arguments = json_object_get(m->params, "arguments");
    json_t *properties = tool ? json_object_get(tool->input, "properties") : NULL;
    char name[128];
    const char *key;
    json_t *schema;

    json_object_foreach(properties, key, schema)
    {
        const char *header = rpc_text(schema, "x-mcp-header");

        (void)snprintf(name, sizeof name, "Mcp-Param-%s", header ? header : "");
        if (header && !repeats(req, name, json_object_get(arguments, key))) {
            (void)rpc_fail(err, RPC_HEADER, 400, NULL, "Header mismatch: %s", name);
            return false;
        }
    }
    return true;
}

static void refuse(struct web_request *req, const json_t *id,
                   const struct rpc_error *err)
{
    auto_json json_t *reply = rpc_error(id, err);
    auto_free char *text = json_dumps(reply, JSON_COMPACT);

    (void)web_reply(req, err->http, "application/json", text, strlen(text));
}

bool talk_look(struct mcp *mcp, struct web_request *req)
{
    auto_rpc_error struct rpc_error err = { 0 };
    auto_rpc_message struct rpc_message m = { 0 };
    auto_json json_t *id = NULL;
    size_t len;
    const char *body = web_body(req, &len);

    if (rpc_read(body, len, &m, &id, &err) < 0)
        return true; /* the server says what is wrong */
    if (m.kind == RPC_RESPONSE)
        take_response(&m);
    else if (strcmp(m.method, "tasks/update") == 0)
        take_input(mcp, &m);
    else if (strcmp(m.method, "tools/call") == 0 &&
             mcp_is_modern(&m, web_header(req, "MCP-Protocol-Version")) &&
             !check_params(mcp, req, &m, &err)) {
        refuse(req, m.id, &err);
        return false;
    }
    return true;
}
