/* SPDX-License-Identifier: Apache-2.0 */

/* Each line is a message to a small MCP server; whatever comes, every request gets
 * one well-formed answer. */

#include <sys/eventfd.h>
#include <unistd.h>

#include "fuzz.h"
#include "mcp/mcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void mcp_echo(const struct mcp_tool *tool, struct mcp_call *call,
                     struct mcp_answer *answer)
{
    (void)tool;
    MUST(json_is_object(call->arguments));
    call->progress(call, "one", 3);
    mcp_call_log(call, "info", json_string("two"));
    answer->structured = json_deep_copy(call->arguments);
}

static json_t *mcp_none(void *context, const char *owner)
{
    (void)context;
    (void)owner;
    return json_array();
}

static json_t *mcp_no_templates(void *context)
{
    (void)context;
    return json_array();
}

static int mcp_read_none(void *context, const char *owner, const char *uri,
                         json_t **out, uint64_t *paid, struct rpc_error *err)
{
    (void)context;
    (void)owner;
    (void)paid;
    (void)uri;
    (void)out;
    return rpc_fail(err, RPC_NO_RESOURCE, 0, NULL, "Resource not found");
}

static void mcp_drop(void *transport, json_t *message)
{
    (void)transport;
    json_decref(message);
}

static void mcp_drop_meanwhile(struct mcp_exchange *x, json_t *message)
{
    (void)x;
    MUST(json_is_string(json_object_get(message, "method")));
    json_decref(message);
}

static void mcp_feed(struct mcp *mcp, struct mcp_peer *peer, int cancel_fd,
                     const char *line, size_t len)
{
    struct rpc_error err = { 0 };
    struct rpc_message m = { 0 };
    json_t *id = NULL, *reply;
    struct mcp_exchange x = { .mcp = mcp,
                              .peer = peer,
                              .owner = "",
                              .message = &m,
                              .cancel_fd = cancel_fd,
                              .send = mcp_drop_meanwhile };
    unsigned status;

    if (rpc_read(line, len, &m, &id, &err) < 0) {
        MUST(err.code <= RPC_INVALID && err.code >= RPC_PARSE && err.message[0]);
        rpc_error_done(&err);
        json_decref(id);
        return;
    }
    if (m.kind == RPC_REQUEST) {
        reply = mcp_answer(&x, mcp_is_modern(&m, NULL), &status);
        MUST(status >= 200 && status < 600);
        MUST(json_equal(json_object_get(reply, "id"), m.id));
        MUST(!json_object_get(reply, "result") != !json_object_get(reply, "error"));
        json_decref(reply);
    } else {
        mcp_take(peer, &m);
    }
    rpc_message_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct mcp_tool tool = {
        .name = "echo",
        .description = "echo",
        .call = mcp_echo,
        .runs = true,
        .input = json_loads("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
                            "\"string\",\"maxLength\":3},\"b\":{\"type\":\"array\","
                            "\"items\":{\"type\":\"integer\",\"minimum\":1}},\"c\":{"
                            "\"type\":[\"string\",\"null\"],\"enum\":[\"x\"]}},"
                            "\"additionalProperties\":false}",
                            0, NULL),
    };
    const struct mcp_tools tools = { .items = &tool, .count = 1 };
    const struct mcp_resources resources = { .list = mcp_none,
                                             .templates = mcp_no_templates,
                                             .read = mcp_read_none };
    const struct mcp_options options = { .tools = &tools,
                                         .resources = &resources,
                                         .name = "fuzz" };
    int cancel_fd = eventfd(1, EFD_CLOEXEC); /* so that nothing waits */
    struct mcp *mcp = NULL;
    struct mcp_peer *peer;
    const char *text = (const char *)data;

    MUST(tool.input && cancel_fd >= 0 && mcp_open(&options, &mcp, NULL) == 0);
    peer = mcp_peer_new(mcp, mcp_drop, NULL);
    MUST(peer);
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t part = end ? (size_t)(end - text) : len;

        mcp_feed(mcp, peer, cancel_fd, text, part);
        text += part + (end != NULL);
        len -= part + (end != NULL);
    }
    mcp_peer_free(peer);
    mcp_close(mcp);
    (void)close(cancel_fd);
    json_decref(tool.input);
    return 0;
}
