/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp.h"

#include <stdlib.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/fail.h"
#include "mcp/core.h"

#define CALLS      64u
#define INFO_LEVEL 1

int mcp_open(const struct mcp_options *options, struct mcp **out,
             struct vial_error *err)
{
    struct mcp *mcp = calloc(1, sizeof *mcp);

    if (!mcp)
        return fail_memory(err);
    mcp->options = *options;
    if (mcp->options.calls == 0)
        mcp->options.calls = CALLS;
    (void)pthread_mutex_init(&mcp->lock, NULL);
    (void)pthread_cond_init(&mcp->changed, NULL);
    *out = mcp;
    return 0;
}

void mcp_close(struct mcp *mcp)
{
    if (!mcp)
        return;
    task_end_all(mcp);
    (void)pthread_cond_destroy(&mcp->changed);
    (void)pthread_mutex_destroy(&mcp->lock);
    free(mcp);
}

void mcp_give_back(struct mcp_exchange *x)
{
    budget_give(x->mcp->options.gate.budget, BUDGET_MEMORY, x->owner, x->paid);
    x->paid = 0;
}

struct mcp_peer *mcp_peer_new(struct mcp *mcp, mcp_send *send, void *transport)
{
    struct mcp_peer *peer = calloc(1, sizeof *peer);

    if (!peer)
        return NULL;
    peer->mcp = mcp;
    peer->send = send;
    peer->transport = transport;
    peer->log_level = INFO_LEVEL;
    peer->subscribed = json_object();
    if (!peer->subscribed) {
        free(peer);
        return NULL;
    }
    (void)pthread_mutex_init(&peer->lock, NULL);
    (void)pthread_cond_init(&peer->changed, NULL);
    (void)pthread_mutex_lock(&mcp->lock);
    peer->next = mcp->peers;
    mcp->peers = peer;
    (void)pthread_mutex_unlock(&mcp->lock);
    return peer;
}

void mcp_peer_free(struct mcp_peer *peer)
{
    struct mcp_peer **at;

    if (!peer)
        return;
    mcp_peer_cancel_all(peer);
    (void)pthread_mutex_lock(&peer->mcp->lock);
    for (at = &peer->mcp->peers; *at != peer; at = &(*at)->next)
        ;
    *at = peer->next;
    (void)pthread_mutex_unlock(&peer->mcp->lock);
    json_decref(peer->capabilities);
    json_decref(peer->subscribed);
    (void)pthread_cond_destroy(&peer->changed);
    (void)pthread_mutex_destroy(&peer->lock);
    free(peer);
}

void mcp_tools_done(struct mcp_tools *tools)
{
    for (size_t i = 0; i < tools->count; i++) {
        json_decref(tools->items[i].input);
        json_decref(tools->items[i].judged);
        json_decref(tools->items[i].output);
        json_decref(tools->items[i].annotations);
    }
    free(tools->items);
    if (tools->data_free)
        tools->data_free(tools->data);
    *tools = (struct mcp_tools){ 0 };
}
