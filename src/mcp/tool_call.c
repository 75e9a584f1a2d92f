/* SPDX-License-Identifier: Apache-2.0 */

/* tools/list and tools/call. */

#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "mcp/core.h"
#include "model/members.h"

static json_t *tool_json(const struct mcp_tool *t, struct vial_engine *engine)
{
    json_t *input = t->listed ? t->listed(t, engine) : json_incref(t->input);

    return json_pack("{s:s, s:s*, s:s, s:o, s:O*, s:O*}", "name", t->name, "title",
                     t->title, "description", t->description, "inputSchema", input,
                     "outputSchema", t->output, "annotations", t->annotations);
}

int tools_list(struct mcp_exchange *x, const struct era *era, json_t **result,
               struct rpc_error *err)
{
    const struct mcp_tools *tools = x->mcp->options.tools;
    json_t *list = json_array();

    (void)era;
    for (size_t i = 0; i < tools->count; i++)
        if (json_array_append_new(
                list, tool_json(&tools->items[i], x->mcp->options.engine)) < 0) {
            json_decref(list);
            return -1;
        }
    return page_of(x, "tools", list, result, err);
}

static const struct mcp_tool *find_tool(const struct mcp *mcp, const char *name)
{
    const struct mcp_tools *tools = mcp->options.tools;

    for (size_t i = 0; name && i < tools->count; i++)
        if (strcmp(tools->items[i].name, name) == 0)
            return &tools->items[i];
    return NULL;
}

static json_t *text_content(const struct str *text)
{
    return json_pack("[{s:s, s:s%}]", "type", "text", "text",
                     text->data ? text->data : "", text->len);
}

int answer_result(struct mcp_answer *answer, json_t **result, struct rpc_error *err)
{
    if (answer->error.code) {
        *err = answer->error;
        answer->error = (struct rpc_error){ 0 };
        return -1;
    }
    if (answer->result) {
        *result = ptr_take(&answer->result);
        return 0;
    }
    if (answer->text.failed)
        return -1;
    if (!answer->content)
        answer->content = text_content(&answer->text);
    *result = json_pack("{s:O, s:O*, s:O*}", "content", answer->content,
                        "structuredContent", answer->structured, "_meta", answer->meta);
    if (*result && answer->is_error)
        (void)json_object_set_new(*result, "isError", json_true());
    return *result ? 0 : -1;
}

void answer_done(struct mcp_answer *answer)
{
    json_decref(answer->content);
    json_decref(answer->structured);
    json_decref(answer->meta);
    json_decref(answer->result);
    rpc_error_done(&answer->error);
    str_done(&answer->text);
    *answer = (struct mcp_answer){ 0 };
}

/* A result that tells the model what was wrong with its arguments. */
static int refuse(const struct mcp_tool *tool, const struct vial_error *why,
                  json_t **result, struct rpc_error *err)
{
    struct mcp_answer answer = { .is_error = true };
    int rc;

    str_printf(&answer.text, "Invalid arguments for %s: %s%s%s. Nothing was run.",
               tool->name, why->message, why->remedy[0] ? "; " : "", why->remedy);
    rc = answer_result(&answer, result, err);
    answer_done(&answer);
    return rc;
}

static bool enter(struct mcp *mcp)
{
    bool free_place;

    (void)pthread_mutex_lock(&mcp->lock);
    free_place = mcp->calls + mcp->task_threads < mcp->options.calls;
    mcp->calls += free_place;
    (void)pthread_mutex_unlock(&mcp->lock);
    return free_place;
}

static void leave(struct mcp *mcp)
{
    (void)pthread_mutex_lock(&mcp->lock);
    mcp->calls--;
    (void)pthread_mutex_unlock(&mcp->lock);
}

static int refuse_busy(struct work *w, json_t **result, struct rpc_error *err)
{
    struct mcp_answer answer = { 0 };
    struct vial_error busy = { 0 };
    int rc;

    (void)fail(&busy, VIAL_E_BUSY, "%u calls are at work or wait already",
               w->mcp->options.calls);
    (void)fail_remedy(&busy, "try again when one of them has ended");
    work_refuse(w, &busy, &answer);
    rc = answer_result(&answer, result, err);
    answer_done(&answer);
    return rc;
}

/* Here and now, in the caller's thread. */
static int run_here(struct work *w, json_t **result, struct rpc_error *err)
{
    struct mcp_answer answer = { 0 };
    int rc;

    work_call(w, &answer);
    rc = answer_result(&answer, result, err);
    answer_done(&answer);
    return rc;
}

static int run_work(struct work *w, json_t **result, struct rpc_error *err)
{
    if (w->modern && w->tool->runs && task_is_known(w->capabilities))
        return task_run(w, result, err);
    return run_here(w, result, err);
}

/* Links to resources are text for clients from before they were invented. */
static void suit_elder(json_t *result)
{
    json_t *content = json_object_get(result, "content");

    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        const char *type = rpc_text(block, "type"), *uri = rpc_text(block, "uri");

        if (type && uri && strcmp(type, "resource_link") == 0)
            (void)json_array_set_new(content, i,
                                     json_pack("{s:s, s:o}", "type", "text", "text",
                                               json_sprintf("[resource: %s]", uri)));
    }
}

int tools_call(struct mcp_exchange *x, const struct era *era, json_t **result,
               struct rpc_error *err)
{
    const char *name = rpc_text(x->message->params, "name");
    const struct mcp_tool *tool = find_tool(x->mcp, name);
    json_t *arguments;
    struct vial_error why = { 0 };
    struct work work;
    int rc;

    if (!tool)
        return rpc_fail(err, RPC_PARAMS, 0, NULL, "Unknown tool: %.128s",
                        name ? name : "no name was given");
    if (work_init(&work, x, era) < 0)
        return -1;
    work.tool = tool;
    arguments = json_object_get(work.params, "arguments");
    if (!json_is_object(arguments))
        rc = rpc_fail(err, RPC_PARAMS, 0, NULL,
                      "Invalid params: arguments is not an object");
    else if (members_judge(arguments, tool->judged ? tool->judged : tool->input, &why) <
             0)
        rc = refuse(tool, &why, result, err);
    else if (!enter(x->mcp))
        rc = refuse_busy(&work, result, err);
    else {
        rc = run_work(&work, result, err);
        leave(x->mcp);
    }
    if (rc == 0 && !era->modern && x->peer &&
        strcmp(mcp_peer_version(x->peer), "2025-06-18") < 0)
        suit_elder(*result);
    work_done(&work);
    return rc;
}
