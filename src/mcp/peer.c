/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/peer.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/sys.h"

#define LINGER_S      2
#define SUBSCRIPTIONS 1024
#define DEFAULT_LEVEL 1 /* info */

/* "debug" to "emergency". */
static const char *const log_levels[] = { "debug",   "info",      "notice",
                                          "warning", "error",     "critical",
                                          "alert",   "emergency", NULL };

int peer_log_level(const char *name)
{
    for (int i = 0; name && log_levels[i]; i++)
        if (strcmp(log_levels[i], name) == 0)
            return i;
    return -1;
}

void peer_initialize(struct mcp_peer *peer, const char *version, json_t *capabilities)
{
    (void)pthread_mutex_lock(&peer->lock);
    (void)snprintf(peer->version, sizeof peer->version, "%s", version);
    json_decref(peer->capabilities);
    peer->capabilities = json_incref(capabilities);
    peer->initialized = true;
    (void)pthread_mutex_unlock(&peer->lock);
}

bool peer_is_initialized(struct mcp_peer *peer)
{
    bool is;

    (void)pthread_mutex_lock(&peer->lock);
    is = peer->initialized;
    (void)pthread_mutex_unlock(&peer->lock);
    return is;
}

json_t *peer_capabilities(struct mcp_peer *peer)
{
    json_t *capabilities;

    (void)pthread_mutex_lock(&peer->lock);
    capabilities = peer->capabilities ? json_incref(peer->capabilities) : json_object();
    (void)pthread_mutex_unlock(&peer->lock);
    return capabilities;
}

const char *mcp_peer_version(const struct mcp_peer *peer)
{
    return peer->version;
}

int peer_subscribe(struct mcp_peer *peer, const char *uri, bool on)
{
    int rc = 0;

    (void)pthread_mutex_lock(&peer->lock);
    if (!on)
        (void)json_object_del(peer->subscribed, uri);
    else if (json_object_size(peer->subscribed) < SUBSCRIPTIONS)
        rc = json_object_set_new(peer->subscribed, uri, json_true());
    else
        rc = -1;
    (void)pthread_mutex_unlock(&peer->lock);
    return rc;
}

void peer_set_level(struct mcp_peer *peer, int level)
{
    (void)pthread_mutex_lock(&peer->lock);
    peer->log_level = level;
    (void)pthread_mutex_unlock(&peer->lock);
}

bool peer_wants(struct mcp_peer *peer, int level)
{
    bool wants;

    (void)pthread_mutex_lock(&peer->lock);
    wants = level >= peer->log_level;
    (void)pthread_mutex_unlock(&peer->lock);
    return wants;
}

static struct mcp_flight *find(struct mcp_peer *peer, const json_t *id)
{
    for (struct mcp_flight *f = peer->flights; f; f = f->next)
        if (json_equal(f->id, id))
            return f;
    return NULL;
}

static struct mcp_flight *flight_new(const json_t *id)
{
    struct mcp_flight *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;
    f->id = json_deep_copy(id);
    f->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->id && f->cancel_fd >= 0)
        return f;
    json_decref(f->id);
    if (f->cancel_fd >= 0)
        (void)close(f->cancel_fd);
    free(f);
    return NULL;
}

static void flight_free(struct mcp_flight *f)
{
    json_decref(f->id);
    (void)close(f->cancel_fd);
    free(f);
}

int mcp_flight_begin(struct mcp_peer *peer, const json_t *id, struct mcp_flight **out,
                     int *cancel_fd, struct rpc_error *err)
{
    struct mcp_flight *f = flight_new(id);
    bool taken, leaving;

    if (!f)
        return rpc_fail(err, RPC_INTERNAL, 500, NULL, "Internal error: no memory");
    (void)pthread_mutex_lock(&peer->lock);
    taken = find(peer, id) != NULL;
    leaving = peer->leaving;
    if (!taken && !leaving) {
        f->next = peer->flights;
        peer->flights = f;
    }
    (void)pthread_mutex_unlock(&peer->lock);
    if (!taken && !leaving) {
        *out = f;
        *cancel_fd = f->cancel_fd;
        return 0;
    }
    flight_free(f);
    return rpc_fail(err, RPC_INVALID, 400, NULL, "Invalid Request: %s",
                    taken ? "a request with this id is under way"
                          : "the session is being closed");
}

bool mcp_flight_end(struct mcp_peer *peer, struct mcp_flight *flight)
{
    struct mcp_flight **at = &peer->flights;
    bool cancelled;

    (void)pthread_mutex_lock(&peer->lock);
    while (*at != flight)
        at = &(*at)->next;
    *at = flight->next;
    cancelled = flight->cancelled;
    (void)pthread_cond_broadcast(&peer->changed);
    (void)pthread_mutex_unlock(&peer->lock);
    flight_free(flight);
    return cancelled;
}

static void cancel(struct mcp_flight *f)
{
    const uint64_t one = 1;

    f->cancelled = true;
    (void)!write(f->cancel_fd, &one, sizeof one);
}

/* With the lock held: waits until no flight has ID (NULL: until there is none). */
static void await_end(struct mcp_peer *peer, const json_t *id, time_t seconds)
{
    struct timespec until;
    int rc = 0;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    while (rc == 0 && (id ? find(peer, id) : peer->flights))
        rc = seconds ? pthread_cond_timedwait(&peer->changed, &peer->lock, &until)
                     : pthread_cond_wait(&peer->changed, &peer->lock);
}

static void take_cancelled(struct mcp_peer *peer, const json_t *params)
{
    const json_t *id = json_object_get(params, "requestId");
    struct mcp_flight *f;

    (void)pthread_mutex_lock(&peer->lock);
    f = id ? find(peer, id) : NULL;
    if (f) {
        cancel(f);
        await_end(peer, id, LINGER_S);
    }
    (void)pthread_mutex_unlock(&peer->lock);
}

void mcp_take(struct mcp_peer *peer, const struct rpc_message *message)
{
    if (message->kind == RPC_NOTIFICATION &&
        strcmp(message->method, "notifications/cancelled") == 0)
        take_cancelled(peer, message->params);
}

void mcp_peer_cancel_all(struct mcp_peer *peer)
{
    (void)pthread_mutex_lock(&peer->lock);
    peer->leaving = true;
    for (struct mcp_flight *f = peer->flights; f; f = f->next)
        cancel(f);
    await_end(peer, NULL, 0);
    (void)pthread_mutex_unlock(&peer->lock);
}
