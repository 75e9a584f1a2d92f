/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_HTTP_PARTS_H
#define VIAL_MCP_HTTP_PARTS_H

/* Shared by the files of the HTTP transport. */

#include <pthread.h>

#include "mcp/core.h"
#include "mcp/http_transport.h"

/* A session of the elder era. */
struct http_session {
    struct http_session *next;
    char id[40];
    char *owner;
    struct mcp_peer *peer;
    struct outbox outbox; /* for the client's GET stream */
    int ended_fd;         /* readable: it is over */

    /* Under the transport's lock: */
    unsigned users;
    bool streamed; /* a GET stream is open */
    bool ended;
    int64_t used_ns;
};

struct mcp_http {
    struct mcp_http_options options;
    pthread_mutex_t lock;
    struct http_session *sessions;
    unsigned session_count;
};

/* False: this server is not meant by the request, or it comes from a foreign page. */
bool http_is_ours(const struct mcp_http *http, const struct web_request *req);

/* Whether the headers of a request of the stateless era say what its body says. */
int http_check_headers(const struct web_request *req, const struct rpc_message *message,
                       struct rpc_error *err);
/* Whether a header's VALUE, plain or "=?base64?…?=", says TEXT. */
bool http_header_says(const char *value, const char *text);

/* A new session, used; NULL when there is no room for it. */
struct http_session *http_session_new(struct mcp_http *http, const char *owner);
/* The session with that id, used; NULL: OWNER has none. */
struct http_session *http_session_take(struct mcp_http *http, const char *owner,
                                       const char *id);
void http_session_release(struct mcp_http *http, struct http_session *session);
/* Ends it: its requests are cancelled, and nobody finds it any more. */
void http_session_end(struct mcp_http *http, struct http_session *session);

#endif
