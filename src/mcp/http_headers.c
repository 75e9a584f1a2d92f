/* SPDX-License-Identifier: Apache-2.0 */

/* Judges what the headers of a request say. */

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "base/text.h"
#include "mcp/http_parts.h"

/* "name", "name:port", "[::1]:port" without the port. */
static size_t host_len(const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');

    if (host[0] == '[')
        return end ? (size_t)(end - host) + 1 : strlen(host);
    return end ? (size_t)(end - host) : strlen(host);
}

static bool is_port(const char *text)
{
    return *text == '\0' ||
           (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

static bool is_loopback(const char *host)
{
    static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
    size_t len = host_len(host);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (len == strlen(names[i]) && strncasecmp(host, names[i], len) == 0)
            return is_port(host + len);
    return false;
}

static bool is_known(const struct mcp_http *http, const char *host)
{
    if (is_loopback(host))
        return true;
    for (const char *const *h = http->options.hosts; h && *h; h++)
        if (strcasecmp(*h, host) == 0)
            return true;
    return false;
}

bool http_is_ours(const struct mcp_http *http, const struct web_request *req)
{
    const char *host = web_header(req, "Host"), *origin = web_header(req, "Origin");
    const char *scheme = origin ? strstr(origin, "://") : NULL;
    pid_t pid;
    uid_t uid;

    if (http->options.any_host)
        return true;
    if (web_header_repeated(req, "Host") || web_header_repeated(req, "Origin"))
        return false;
    /* A unix socket has no name that a foreign page could resolve to it. */
    if (!web_peer(req, &pid, &uid) && (!host || !is_known(http, host)))
        return false;
    return !origin || (scheme && is_known(http, scheme + 3));
}

static int mismatch(struct rpc_error *err, const char *name)
{
    return rpc_fail(err, RPC_HEADER, 400, NULL, "Header mismatch: %s", name);
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if ((*text < 0x20 && *text != '\t') || *text == 0x7f || (*text & 0x80))
            return false;
    return true;
}

/* Without the white space around it, which is no part of a header's value. */
static size_t trim(const char **value)
{
    size_t len;

    *value += strspn(*value, " \t");
    len = strlen(*value);
    while (len > 0 && strchr(" \t", (*value)[len - 1]))
        len--;
    return len;
}

static bool is_plainly(const char *value, const char *text)
{
    size_t len = trim(&value);

    return len == strlen(text) && memcmp(value, text, len) == 0;
}

#define CODED "=?base64?"

bool http_header_says(const char *value, const char *text)
{
    size_t len = trim(&value), begin = strlen(CODED);
    struct blob plain = { 0 };
    bool same;

    if (!str_starts(value, CODED) || len < begin + 2 ||
        memcmp(value + len - 2, "?=", 2) != 0)
        return is_printable(value) && is_plainly(value, text);
    if (text_unbase64(value + begin, len - begin - 2, &plain) < 0)
        return false;
    same = plain.len == strlen(text) && memcmp(plain.data, text, plain.len) == 0;
    blob_done(&plain);
    return same;
}

static bool is_once(const struct web_request *req, const char *name)
{
    return web_header(req, name) && !web_header_repeated(req, name);
}

/* The name that Mcp-Name must repeat, or NULL. */
static const char *name_in(const struct rpc_message *m)
{
    static const struct {
        const char *method, *key;
    } rows[] = { { "tools/call", "name" },     { "prompts/get", "name" },
                 { "resources/read", "uri" },  { "tasks/get", "taskId" },
                 { "tasks/update", "taskId" }, { "tasks/cancel", "taskId" } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].method, m->method) == 0)
            return rpc_text(m->params, rows[i].key);
    return NULL;
}

int http_check_headers(const struct web_request *req, const struct rpc_message *message,
                       struct rpc_error *err)
{
    const json_t *meta = json_object_get(message->params, "_meta");
    const char *version = rpc_text(meta, MCP_META "protocolVersion");
    const char *name = name_in(message);

    if (version && (!is_once(req, "MCP-Protocol-Version") ||
                    !is_plainly(web_header(req, "MCP-Protocol-Version"), version)))
        return mismatch(err, "MCP-Protocol-Version");
    if (!is_once(req, "Mcp-Method") ||
        !is_plainly(web_header(req, "Mcp-Method"), message->method))
        return mismatch(err, "Mcp-Method");
    if (name && (!is_once(req, "Mcp-Name") ||
                 !http_header_says(web_header(req, "Mcp-Name"), name)))
        return mismatch(err, "Mcp-Name");
    return 0;
}
