/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_HTTP_TRANSPORT_H
#define VIAL_MCP_HTTP_TRANSPORT_H

/*
 * Streamable HTTP: one endpoint for both eras. A POST is answered with JSON, or with
 * a stream of events as soon as there is something to say meanwhile. A client that
 * closes the stream has given up, and its run is ended.
 */

#include "mcp/mcp.h"
#include "web/web.h"

struct mcp_http;

struct mcp_http_options {
    struct mcp *mcp; /* outlives it */
    /* Names, besides those of the loopback interface, by which a client may call
     * this server ("box.example:8443"); NULL-terminated, or NULL. */
    const char *const *hosts;
    const char *node;      /* named in sessions' ids; outlives it; or NULL */
    bool any_host;         /* something before us has judged Host and Origin */
    unsigned sessions;     /* of the elder era, at once; 0: 1024 */
    unsigned heartbeat_ms; /* how long a stream is silent; 0: 15 s */
};

int mcp_http_open(const struct mcp_http_options *options, struct mcp_http **out,
                  struct vial_error *err);

/* The caller, and the name of the request. */
struct mcp_asker {
    const char *owner;       /* "" where there is one caller only */
    const char *correlation; /* or NULL */
};

/* Answers a request to the endpoint, whatever its method. */
void mcp_http_handle(struct mcp_http *http, struct web_request *req,
                     const struct mcp_asker *who);

/* Ends all sessions. No request may be under way. NULL is allowed. */
void mcp_http_close(struct mcp_http *http);

#endif
