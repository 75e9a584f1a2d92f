/* SPDX-License-Identifier: Apache-2.0 */

/* From a request to its answer: which era, which method, and the form of the
 * result. */

#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "mcp/core.h"

#define MODERN "2026-07-28"

static const char *const elder[] = { "2025-11-25", "2025-06-18", "2025-03-26",
                                     "2024-11-05", NULL };

static bool is_elder_version(const char *version)
{
    for (size_t i = 0; elder[i]; i++)
        if (strcmp(elder[i], version) == 0)
            return true;
    return false;
}

bool mcp_is_modern(const struct rpc_message *message, const char *header)
{
    const json_t *meta = json_object_get(message->params, "_meta");

    if (json_object_get(meta, MCP_META "protocolVersion"))
        return true;
    return header && !is_elder_version(header);
}

static json_t *versions(void)
{
    json_t *list = json_pack("[s]", MODERN);

    for (size_t i = 0; elder[i]; i++)
        (void)json_array_append_new(list, json_string(elder[i]));
    return list;
}

static json_t *server_info(const struct mcp *mcp)
{
    const struct mcp_options *o = &mcp->options;

    return json_pack("{s:s, s:s*, s:s}", "name", o->name, "title", o->title, "version",
                     vial_version());
}

static json_t *capabilities(const struct mcp *mcp, bool modern)
{
    const struct mcp_options *o = &mcp->options;
    json_t *c = json_pack("{s:{s:b}}", "tools", "listChanged", (int)o->lists_change);

    if (o->resources)
        (void)json_object_set_new(
            c, "resources", json_pack("{s:b, s:b}", "subscribe", 1, "listChanged", 1));
    if (o->prompts)
        (void)json_object_set_new(
            c, "prompts", json_pack("{s:b}", "listChanged", (int)o->lists_change));
    if (o->resources && o->resources->complete)
        (void)json_object_set_new(c, "completions", json_object());
    if (!modern)
        (void)json_object_set_new(c, "logging", json_object());
    else
        (void)json_object_set_new(c, "extensions",
                                  json_pack("{s:{}}", MCP_META "tasks"));
    return c;
}

static int discover(struct mcp_exchange *x, const struct era *era, json_t **result,
                    struct rpc_error *err)
{
    (void)era;
    (void)err;
    *result = json_pack("{s:o, s:o, s:s*}", "supportedVersions", versions(),
                        "capabilities", capabilities(x->mcp, true), "instructions",
                        x->mcp->options.instructions);
    return 0;
}

static int initialize(struct mcp_exchange *x, const struct era *era, json_t **result,
                      struct rpc_error *err)
{
    const char *asked = rpc_text(x->message->params, "protocolVersion");
    json_t *can = json_object_get(x->message->params, "capabilities");
    const char *agreed = asked && is_elder_version(asked) ? asked : elder[0];

    (void)era;
    if (!asked || (can && !json_is_object(can)))
        return rpc_fail(err, RPC_PARAMS, 400, NULL,
                        "Invalid params: protocolVersion is missing, or capabilities "
                        "is not an object");
    peer_initialize(x->peer, agreed, can);
    *result =
        json_pack("{s:s, s:o, s:o, s:s*}", "protocolVersion", agreed, "capabilities",
                  capabilities(x->mcp, false), "serverInfo", server_info(x->mcp),
                  "instructions", x->mcp->options.instructions);
    return 0;
}

static int ping(struct mcp_exchange *x, const struct era *era, json_t **result,
                struct rpc_error *err)
{
    (void)x;
    (void)era;
    (void)err;
    *result = json_object();
    return 0;
}

static int set_level(struct mcp_exchange *x, const struct era *era, json_t **result,
                     struct rpc_error *err)
{
    int level = peer_log_level(rpc_text(x->message->params, "level"));

    if (level < 0)
        return rpc_fail(err, RPC_PARAMS, 0, NULL, "Invalid params: unknown level");
    peer_set_level(x->peer, level);
    return ping(x, era, result, err);
}

static int subscribe_to(struct mcp_exchange *x, bool on, json_t **result,
                        struct rpc_error *err)
{
    const char *uri = rpc_text(x->message->params, "uri");

    if (!uri || !x->mcp->options.resources)
        return rpc_fail(err, RPC_PARAMS, 0, NULL, "Invalid params: uri is missing");
    if (peer_subscribe(x->peer, uri, on) < 0)
        return rpc_fail(err, RPC_INTERNAL, 0, NULL, "too many subscriptions");
    *result = json_object();
    return 0;
}

static int subscribe(struct mcp_exchange *x, const struct era *era, json_t **result,
                     struct rpc_error *err)
{
    (void)era;
    return subscribe_to(x, true, result, err);
}

static int unsubscribe(struct mcp_exchange *x, const struct era *era, json_t **result,
                       struct rpc_error *err)
{
    (void)era;
    return subscribe_to(x, false, result, err);
}

enum { OLD = 1, NEW = 2, SLOW = 4, FIRST = 8, TASK = 16 };

static const struct method {
    const char *name;
    mcp_method *run;
    unsigned flags;
    int ttl_ms;  /* how long clients may keep the result; -1: it is no such result */
    bool shared; /* the same for every caller */
} methods[] = {
    { "initialize", initialize, OLD | FIRST, -1, false },
    { "ping", ping, OLD | FIRST, -1, false },
    { "logging/setLevel", set_level, OLD, -1, false },
    { "resources/subscribe", subscribe, OLD, -1, false },
    { "resources/unsubscribe", unsubscribe, OLD, -1, false },
    { "server/discover", discover, NEW, 60000, true },
    { "tools/list", tools_list, OLD | NEW, 60000, true },
    { "tools/call", tools_call, OLD | NEW | SLOW, -1, false },
    { "prompts/list", prompts_list, OLD | NEW, 60000, true },
    { "prompts/get", prompts_get, OLD | NEW | SLOW, -1, false },
    { "resources/list", resources_list, OLD | NEW | SLOW, 0, false },
    { "resources/templates/list", resources_templates, OLD | NEW, 60000, true },
    { "resources/read", resources_read, OLD | NEW | SLOW, 0, false },
    { "completion/complete", complete, OLD | NEW | SLOW, -1, false },
    { "subscriptions/listen", listen_run, NEW | SLOW, -1, false },
    { "tasks/get", task_get, NEW | TASK, -1, false },
    { "tasks/update", task_update, NEW | TASK, -1, false },
    { "tasks/cancel", task_cancel, NEW | TASK, -1, false },
};

static const struct method *find_method(const char *name, bool modern)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0 &&
            (methods[i].flags & (modern ? NEW : OLD)))
            return &methods[i];
    return NULL;
}

bool mcp_is_slow(const char *method)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, method) == 0)
            return methods[i].flags & SLOW;
    return false;
}

/* Adds what every result of the stateless era has. */
static int finish_modern(struct mcp *mcp, const struct method *m, json_t *result)
{
    json_t *meta = json_object_get(result, "_meta");
    const char *type = "complete";

    if (!json_object_get(result, "resultType") &&
        json_object_set_new(result, "resultType", json_string(type)) < 0)
        return -1;
    if (!meta) {
        if (json_object_set_new(result, "_meta", json_object()) < 0)
            return -1;
        meta = json_object_get(result, "_meta");
    }
    if (json_object_set_new(meta, MCP_META "serverInfo", server_info(mcp)) < 0)
        return -1;
    if (m->ttl_ms < 0)
        return 0;
    if (json_object_set_new(result, "ttlMs", json_integer(m->ttl_ms)) < 0)
        return -1;
    return json_object_set_new(result, "cacheScope",
                               json_string(m->shared ? "public" : "private"));
}

/* Reads who asks: the request itself says it. */
static int read_modern(struct mcp_exchange *x, struct era *era, struct rpc_error *err)
{
    const json_t *meta = json_object_get(x->message->params, "_meta");
    const char *version = rpc_text(meta, MCP_META "protocolVersion");
    json_t *can = json_object_get(meta, MCP_META "clientCapabilities");

    if (!version || !json_is_object(can))
        return rpc_fail(err, RPC_PARAMS, 400, NULL,
                        "Invalid params: _meta lacks " MCP_META
                        "protocolVersion or " MCP_META "clientCapabilities");
    if (strcmp(version, MODERN) != 0)
        return rpc_fail(
            err, RPC_VERSION, 400,
            json_pack("{s:o, s:s}", "supported", versions(), "requested", version),
            "Unsupported protocol version");
    era->capabilities = json_incref(can);
    return 0;
}

/* Reads who asks: `initialize` has said it, once. */
static int read_elder(struct mcp_exchange *x, const struct method *m, struct era *era,
                      struct rpc_error *err)
{
    if (!x->peer || (!(m->flags & FIRST) && !peer_is_initialized(x->peer)))
        return rpc_fail(err, RPC_INVALID, 400, NULL,
                        "Invalid Request: initialize comes first");
    era->capabilities = peer_capabilities(x->peer);
    return 0;
}

static int run(struct mcp_exchange *x, struct era *era, json_t **result,
               struct rpc_error *err)
{
    const struct method *m = find_method(x->message->method, era->modern);
    int rc = 0;

    if (era->modern && read_modern(x, era, err) < 0)
        return -1;
    if (!m)
        return rpc_fail(err, RPC_NO_METHOD, era->modern ? 404 : 0, NULL,
                        "Method not found");
    if (!era->modern && read_elder(x, m, era, err) < 0)
        return -1;
    if ((m->flags & TASK) && !task_is_known(era->capabilities))
        return task_fail_unknown(err);
    rc = m->run(x, era, result, err);
    if (rc == 0 && era->modern && *result)
        rc = finish_modern(x->mcp, m, *result);
    if (rc == 0 && !*result)
        rc = -1;
    if (rc < 0 && err->code == 0)
        (void)rpc_fail(err, RPC_INTERNAL, 500, NULL, "Internal error: no memory");
    return rc;
}

json_t *mcp_answer(struct mcp_exchange *x, bool modern, unsigned *status)
{
    auto_rpc_error struct rpc_error err = { 0 };
    struct era era = { .modern = modern };
    json_t *result = NULL, *answer;

    *status = 200;
    if (run(x, &era, &result, &err) == 0) {
        answer = rpc_result(x->message->id, result);
    } else {
        json_decref(result);
        *status = err.http ? err.http : 200;
        answer = rpc_error(x->message->id, &err);
    }
    json_decref(era.capabilities);
    return answer;
}
