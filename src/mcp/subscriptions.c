/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps the list of those who want to know of changes: subscriptions/listen of the
 * stateless era, and the peers of the elder ones. */

#include <string.h>

#include "base/str.h"
#include "mcp/core.h"

#define LISTENERS_MAX 1024u
#define HEARTBEAT_MS  15000

struct listener {
    struct listener *next;
    struct outbox outbox;
    json_t *filter;
    const json_t *id;
};

/* How a change is called: in a filter, and as a notification. */
static const struct change {
    const char *what, *key, *method;
} changes[] = {
    { "tools", "toolsListChanged", "notifications/tools/list_changed" },
    { "prompts", "promptsListChanged", "notifications/prompts/list_changed" },
    { "resources", "resourcesListChanged", "notifications/resources/list_changed" },
};

static const struct change *find_change(const char *what)
{
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (strcmp(changes[i].what, what) == 0)
            return &changes[i];
    return NULL;
}

static json_t *message_for(const char *what)
{
    const struct change *c = find_change(what);

    if (c)
        return rpc_notification(c->method, json_object());
    return rpc_notification("notifications/resources/updated",
                            json_pack("{s:s}", "uri", what));
}

static bool has_text(const json_t *array, const char *text)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        if (str_eq(json_string_value(json_array_get(array, i)), text))
            return true;
    return false;
}

static bool listener_wants(const struct listener *l, const char *what)
{
    const struct change *c = find_change(what);

    if (c)
        return json_is_true(json_object_get(l->filter, c->key));
    return has_text(json_object_get(l->filter, "resourceSubscriptions"), what);
}

static void tag(json_t *message, const json_t *id)
{
    json_t *params = json_object_get(message, "params");
    json_t *copy = json_deep_copy(id);

    if (copy)
        (void)json_object_set_new(params, "_meta",
                                  json_pack("{s:o}", MCP_META "subscriptionId", copy));
}

static bool peer_wants_change(struct mcp_peer *peer, const char *what)
{
    bool wants;

    (void)pthread_mutex_lock(&peer->lock);
    wants = peer->initialized && !peer->leaving &&
            (find_change(what) || json_object_get(peer->subscribed, what));
    (void)pthread_mutex_unlock(&peer->lock);
    return wants;
}

void mcp_changed(struct mcp *mcp, const char *what)
{
    (void)pthread_mutex_lock(&mcp->lock);
    for (struct listener *l = mcp->listeners; l; l = l->next) {
        json_t *message = listener_wants(l, what) ? message_for(what) : NULL;

        if (message) {
            tag(message, l->id);
            outbox_put(&l->outbox, message);
        }
    }
    for (struct mcp_peer *p = mcp->peers; p; p = p->next) {
        json_t *message = peer_wants_change(p, what) ? message_for(what) : NULL;

        if (message)
            p->send(p->transport, message);
    }
    (void)pthread_mutex_unlock(&mcp->lock);
}

void mcp_call_changed(struct mcp_call *call, const char *what)
{
    const struct work *w = call->core;

    mcp_changed(w->mcp, what);
}

/* Of what was asked for, what we can tell. */
static json_t *filter_of(const struct mcp *mcp, const json_t *asked)
{
    const json_t *uris = json_object_get(asked, "resourceSubscriptions");
    json_t *filter = json_object();

    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (json_is_true(json_object_get(asked, changes[i].key)))
            (void)json_object_set_new(filter, changes[i].key, json_true());
    if (json_is_array(uris) && mcp->options.resources)
        (void)json_object_set_new(filter, "resourceSubscriptions",
                                  json_deep_copy(uris));
    return filter;
}

static bool join(struct mcp *mcp, struct listener *l)
{
    unsigned count = 0;

    (void)pthread_mutex_lock(&mcp->lock);
    for (const struct listener *other = mcp->listeners; other; other = other->next)
        count++;
    if (count < LISTENERS_MAX) {
        l->next = mcp->listeners;
        mcp->listeners = l;
    }
    (void)pthread_mutex_unlock(&mcp->lock);
    return count < LISTENERS_MAX;
}

static void leave(struct mcp *mcp, struct listener *l)
{
    struct listener **at = &mcp->listeners;

    (void)pthread_mutex_lock(&mcp->lock);
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    (void)pthread_mutex_unlock(&mcp->lock);
}

int listen_run(struct mcp_exchange *x, const struct era *era, json_t **result,
               struct rpc_error *err)
{
    const json_t *asked = json_object_get(x->message->params, "notifications");
    struct listener l = { .id = x->message->id };
    json_t *hello;

    (void)era;
    if (!json_is_object(asked))
        return rpc_fail(err, RPC_PARAMS, 400, NULL,
                        "Invalid params: notifications is not an object");
    l.filter = filter_of(x->mcp, asked);
    if (outbox_init(&l.outbox) < 0) {
        json_decref(l.filter);
        return -1;
    }
    hello = rpc_notification("notifications/subscriptions/acknowledged",
                             json_pack("{s:O}", "notifications", l.filter));
    if (hello && join(x->mcp, &l)) {
        tag(hello, l.id);
        x->send(x, hello);
        while (!outbox_pass_on(&l.outbox, x, -1, HEARTBEAT_MS))
            x->send(x, NULL);
        leave(x->mcp, &l);
        *result = json_object();
    } else {
        json_decref(hello);
        (void)rpc_fail(err, RPC_INTERNAL, 503, NULL, "too many listeners");
    }
    json_decref(l.filter);
    outbox_done(&l.outbox);
    return *result ? 0 : -1;
}
