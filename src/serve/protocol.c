/* SPDX-License-Identifier: Apache-2.0 */

/* The Model Context Protocol, which has its own way with HTTP. */

#include "base/fail.h"
#include "mcp/http.h"
#include "serve/route.h"

static void pass_on(struct call *c)
{
    struct vial_error err = { 0 };

    /* Its tools both run code and hold sessions. */
    if (!(c->who.scopes & SCOPE_RUN)) {
        (void)fail(&err, VIAL_E_SCOPE, "'%s' may not run code", c->who.name);
        call_error(c, &err);
        return;
    }
    c->status = 200;
    mcp_http_handle(c->gen->mcp_http, c->web, c->who.name);
}

void protocol_post(struct call *c)
{
    pass_on(c);
}

void protocol_get(struct call *c)
{
    pass_on(c);
}

void protocol_delete(struct call *c)
{
    pass_on(c);
}
