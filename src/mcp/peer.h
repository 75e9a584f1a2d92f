/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_PEER_H
#define VIAL_MCP_PEER_H

/* A client of the elder era, as the core sees it. The public part is in mcp.h. */

#include <pthread.h>

#include "mcp/mcp.h"

struct mcp_flight {
    struct mcp_flight *next;
    json_t *id;
    int cancel_fd; /* an eventfd */
    bool cancelled;
};

struct mcp_peer {
    struct mcp_peer *next; /* in the server's list */
    struct mcp *mcp;
    mcp_send *send;
    void *transport;

    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t changed;
    struct mcp_flight *flights;
    bool leaving;
    bool initialized;
    char version[16];
    json_t *capabilities;
    int log_level;      /* index into log_levels */
    json_t *subscribed; /* an object whose keys are URIs */
};

int peer_log_level(const char *name); /* -1: unknown */

/* Takes what `initialize` says. */
void peer_initialize(struct mcp_peer *peer, const char *version, json_t *capabilities);
bool peer_is_initialized(struct mcp_peer *peer);
json_t *peer_capabilities(struct mcp_peer *peer); /* a new reference */
int peer_subscribe(struct mcp_peer *peer, const char *uri, bool on);
void peer_set_level(struct mcp_peer *peer, int level);
bool peer_wants(struct mcp_peer *peer, int level);

#endif
