/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/cors.h"

#include <string.h>

#include "serve/ports.h"
#include "serve/sessions_at.h"

#define METHODS "GET, HEAD, POST, PUT, DELETE"
/* Those of requests that a route reads, and those by which wires are told a token. */
#define SENT                                                                             \
    "Authorization, Content-Type, Idempotency-Key, X-Request-Id, MCP-Protocol-Version, " \
    "Mcp-Session-Id, Mcp-Method, Mcp-Name, X-Auth-Token, X-Auth-User, "                  \
    "X-RapidAPI-Key, X-RapidAPI-Host, tokens"
#define READ                                                                           \
    "X-Request-Id, Retry-After, Idempotency-Replayed, Vial-Ends-In, Vial-Offset, "     \
    "Vial-Gap, Mcp-Session-Id, WWW-Authenticate"
/* A request is judged by its own Origin, whatever a browser remembers. */
#define REMEMBERED_S "600"

const char *cors_origin(const struct auth *a, const struct web_request *req)
{
    if (port_concerns(req) || !auth_origin_is_listed(a, req))
        return NULL;
    return web_header(req, "Origin");
}

void cors_allow(struct call *c)
{
    const char *origin = cors_origin(&c->gen->auth, c->web);

    if (c->gen->auth.origins.count > 0 && !port_concerns(c->web))
        (void)web_set_header(c->web, "Vary", "Origin");
    if (!origin)
        return;
    (void)web_set_header(c->web, "Access-Control-Allow-Origin", origin);
    (void)web_set_header(c->web, "Access-Control-Expose-Headers", READ);
}

static bool asks_first(const struct call *c)
{
    return strcmp(web_method(c->web), "OPTIONS") == 0 &&
           web_header(c->web, "Access-Control-Request-Method") &&
           cors_origin(&c->gen->auth, c->web);
}

bool cors_answer(struct call *c)
{
    bool first = asks_first(c);

    /* The daemon of the sessions has the Origin too, and says so itself. */
    if (first || !sessions_at_concerns(c->serve, c->web))
        cors_allow(c);
    if (!first)
        return false;
    (void)web_set_header(c->web, "Access-Control-Allow-Methods", METHODS);
    (void)web_set_header(c->web, "Access-Control-Allow-Headers", SENT);
    (void)web_set_header(c->web, "Access-Control-Max-Age", REMEMBERED_S);
    call_done(c);
    return true;
}
