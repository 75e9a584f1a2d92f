/* SPDX-License-Identifier: Apache-2.0 */

/* Answers about what a server shows besides tools: resources, prompts, completions. */

#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "mcp/core.h"

static int no_method(const struct era *era, struct rpc_error *err)
{
    return rpc_fail(err, RPC_NO_METHOD, era->modern ? 404 : 0, NULL,
                    "Method not found");
}

int resources_list(struct mcp_exchange *x, const struct era *era, json_t **result,
                   struct rpc_error *err)
{
    const struct mcp_resources *r = x->mcp->options.resources;

    if (!r)
        return no_method(era, err);
    return page_of(x, "resources", r->list(r->context, x->owner), result, err);
}

int resources_templates(struct mcp_exchange *x, const struct era *era, json_t **result,
                        struct rpc_error *err)
{
    const struct mcp_resources *r = x->mcp->options.resources;

    if (!r)
        return no_method(era, err);
    return page_of(x, "resourceTemplates", r->templates(r->context), result, err);
}

int resources_read(struct mcp_exchange *x, const struct era *era, json_t **result,
                   struct rpc_error *err)
{
    const struct mcp_resources *r = x->mcp->options.resources;
    const char *uri = rpc_text(x->message->params, "uri");
    json_t *contents = NULL;

    if (!r)
        return no_method(era, err);
    if (!uri)
        return rpc_fail(err, RPC_PARAMS, 0, NULL, "Invalid params: uri is missing");
    if (r->read(r->context, x->owner, uri, &contents, &x->paid, err) == 0) {
        *result = json_pack("{s:o}", "contents", contents);
        return 0;
    }
    if (err->code == RPC_NO_RESOURCE && !err->data)
        err->data = json_pack("{s:s}", "uri", uri);
    if (err->code == RPC_NO_RESOURCE && era->modern)
        err->code = RPC_PARAMS;
    return -1;
}

static json_t *prompt_json(const struct mcp_prompt *p)
{
    json_t *arguments = json_array();

    for (size_t i = 0; p->arguments && p->arguments[i]; i++)
        (void)json_array_append_new(
            arguments, json_pack("{s:s, s:b}", "name", p->arguments[i], "required", 1));
    return json_pack("{s:s, s:s, s:o}", "name", p->name, "description", p->description,
                     "arguments", arguments);
}

int prompts_list(struct mcp_exchange *x, const struct era *era, json_t **result,
                 struct rpc_error *err)
{
    const struct mcp_prompt *p = x->mcp->options.prompts;
    json_t *list;

    if (!p)
        return no_method(era, err);
    list = json_array();
    for (; p->name; p++)
        (void)json_array_append_new(list, prompt_json(p));
    return page_of(x, "prompts", list, result, err);
}

static const struct mcp_prompt *find_prompt(const struct mcp *mcp, const char *name)
{
    for (const struct mcp_prompt *p = mcp->options.prompts; name && p->name; p++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

static int check_prompt(const struct mcp_prompt *p, const json_t *arguments,
                        struct rpc_error *err)
{
    for (size_t i = 0; p->arguments && p->arguments[i]; i++)
        if (!rpc_text(arguments, p->arguments[i]))
            return rpc_fail(err, RPC_PARAMS, 0, NULL,
                            "Invalid params: argument '%s' is missing",
                            p->arguments[i]);
    return 0;
}

/* Blocks of content as messages of the user. */
static json_t *messages_of(const json_t *content)
{
    json_t *messages = json_array();

    for (size_t i = 0; i < json_array_size(content); i++)
        (void)json_array_append_new(messages,
                                    json_pack("{s:s, s:O}", "role", "user", "content",
                                              json_array_get(content, i)));
    return messages;
}

int prompts_get(struct mcp_exchange *x, const struct era *era, json_t **result,
                struct rpc_error *err)
{
    const struct mcp_prompt *p = NULL;
    struct mcp_answer answer = { 0 };
    struct work work;
    int rc = 0;

    if (!x->mcp->options.prompts)
        return no_method(era, err);
    p = find_prompt(x->mcp, rpc_text(x->message->params, "name"));
    if (!p)
        return rpc_fail(err, RPC_PARAMS, 0, NULL, "Unknown prompt");
    if (check_prompt(p, json_object_get(x->message->params, "arguments"), err) < 0 ||
        work_init(&work, x, era) < 0)
        return -1;
    p->get(&work.public, &answer);
    if (answer.error.code || answer.result)
        rc = answer_result(&answer, result, err);
    else
        *result = json_pack("{s:s, s:o}", "description", p->description, "messages",
                            messages_of(answer.content));
    answer_done(&answer);
    work_done(&work);
    return rc;
}

int complete(struct mcp_exchange *x, const struct era *era, json_t **result,
             struct rpc_error *err)
{
    const struct mcp_resources *r = x->mcp->options.resources;
    const json_t *params = x->message->params;
    json_t *values;

    if (!r || !r->complete)
        return no_method(era, err);
    if (!rpc_text(json_object_get(params, "ref"), "type") ||
        !rpc_text(json_object_get(params, "argument"), "name") ||
        !rpc_text(json_object_get(params, "argument"), "value"))
        return rpc_fail(err, RPC_PARAMS, 0, NULL,
                        "Invalid params: ref or argument is missing");
    values = r->complete(r->context, x->owner, params);
    if (!values)
        values = json_array();
    *result =
        json_pack("{s:{s:I, s:b, s:o}}", "completion", "total",
                  (json_int_t)json_array_size(values), "hasMore", 0, "values", values);
    return 0;
}
