/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/rpc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

int rpc_fail(struct rpc_error *err, enum rpc_code code, unsigned http, json_t *data,
             const char *format, ...)
{
    va_list args;

    rpc_error_done(err);
    err->code = code;
    err->http = http;
    err->data = data;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return -1;
}

void rpc_error_done(struct rpc_error *err)
{
    json_decref(ptr_take(&err->data));
}

const char *rpc_text(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static bool is_id(const json_t *id)
{
    return json_is_string(id) || json_is_integer(id);
}

static int invalid(struct rpc_error *err, const char *why)
{
    return rpc_fail(err, RPC_INVALID, 400, NULL, "Invalid Request: %s", why);
}

static int judge_response(struct rpc_message *m, struct rpc_error *err)
{
    bool result = json_object_get(m->whole, "result") != NULL;
    bool error = json_is_object(json_object_get(m->whole, "error"));

    m->kind = RPC_RESPONSE;
    if (!m->id)
        return invalid(err, "neither a method nor an id");
    return result != error ? 0 : invalid(err, "neither a method nor a result");
}

static int judge(struct rpc_message *m, struct rpc_error *err)
{
    const char *version = rpc_text(m->whole, "jsonrpc");
    json_t *id = json_object_get(m->whole, "id");

    if (!version || strcmp(version, "2.0") != 0)
        return invalid(err, "jsonrpc is not \"2.0\"");
    if (id && !is_id(id))
        return invalid(err, "id is neither a text nor an integer");
    m->id = id;
    if (!json_object_get(m->whole, "method"))
        return judge_response(m, err);
    m->method = rpc_text(m->whole, "method");
    if (!m->method)
        return invalid(err, "method is not a text");
    m->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
    m->params = json_object_get(m->whole, "params");
    if (!m->params && json_object_set_new(m->whole, "params", json_object()) == 0)
        m->params = json_object_get(m->whole, "params");
    if (json_is_object(m->params))
        return 0;
    return rpc_fail(err, RPC_PARAMS, 400, NULL, "Invalid params: not an object");
}

int rpc_read(const char *text, size_t len, struct rpc_message *out, json_t **id,
             struct rpc_error *err)
{
    auto_rpc_message struct rpc_message m = { 0 };
    struct vial_error why = { 0 };

    if (json_parse(text, len, "message", &m.whole, &why) < 0)
        return rpc_fail(err, RPC_PARSE, 400, NULL, "Parse error: %.200s", why.message);
    if (!json_is_object(m.whole))
        return invalid(err, json_is_array(m.whole) ? "batches are not supported"
                                                   : "not an object");
    if (judge(&m, err) < 0) {
        if (is_id(json_object_get(m.whole, "id")))
            *id = json_incref(json_object_get(m.whole, "id"));
        return -1;
    }
    *out = m;
    m.whole = NULL;
    return 0;
}

void rpc_message_done(struct rpc_message *message)
{
    json_decref(ptr_take(&message->whole));
}

static json_t *with_id(const json_t *id)
{
    json_t *message = json_pack("{s:s}", "jsonrpc", "2.0");

    if (message && id && json_object_set_new(message, "id", json_deep_copy(id)) < 0) {
        json_decref(message);
        return NULL;
    }
    return message;
}

/* Takes both. */
static json_t *with(json_t *message, const char *key, json_t *value)
{
    if (message && value && json_object_set_new(message, key, value) == 0)
        return message;
    if (!message)
        json_decref(value);
    json_decref(message);
    return NULL;
}

json_t *rpc_result(const json_t *id, json_t *result)
{
    return with(with_id(id), "result", result);
}

json_t *rpc_error(const json_t *id, const struct rpc_error *err)
{
    return with(with_id(id), "error",
                json_pack("{s:i, s:s, s:O*}", "code", (int)err->code, "message",
                          err->message, "data", err->data));
}

json_t *rpc_notification(const char *method, json_t *params)
{
    json_t *message = with_id(NULL);

    if (message)
        (void)json_object_set_new(message, "method", json_string(method));
    return with(message, "params", params);
}
