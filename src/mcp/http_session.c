/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/sys.h"
#include "mcp/http_parts.h"

#define SESSIONS     1024u
#define HEARTBEAT_MS 15000u
#define SHARE        4u /* one owner may have a quarter of all */
#define IDLE_NS      (INT64_C(3600) * 1000000000)

int mcp_http_open(const struct mcp_http_options *options, struct mcp_http **out,
                  struct vial_error *err)
{
    struct mcp_http *http = calloc(1, sizeof *http);

    if (!http)
        return fail_memory(err);
    http->options = *options;
    if (http->options.sessions == 0)
        http->options.sessions = SESSIONS;
    if (http->options.heartbeat_ms == 0)
        http->options.heartbeat_ms = HEARTBEAT_MS;
    (void)pthread_mutex_init(&http->lock, NULL);
    *out = http;
    return 0;
}

static void session_free(struct http_session *s)
{
    mcp_peer_free(s->peer);
    outbox_done(&s->outbox);
    if (s->ended_fd >= 0)
        (void)close(s->ended_fd);
    free(s->owner);
    free(s);
}

void mcp_http_close(struct mcp_http *http)
{
    if (!http)
        return;
    while (http->sessions) {
        struct http_session *next = http->sessions->next;

        session_free(http->sessions);
        http->sessions = next;
    }
    (void)pthread_mutex_destroy(&http->lock);
    free(http);
}

static void send_unasked(void *transport, json_t *message)
{
    struct http_session *s = transport;

    outbox_put(&s->outbox, message);
}

static struct http_session *session_make(struct mcp_http *http, const char *owner)
{
    struct http_session *s = calloc(1, sizeof *s);
    const char *node = http->options.node ? http->options.node : "";
    char low[20], high[20];

    if (!s)
        return NULL;
    s->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->owner = strdup(owner);
    if (outbox_init(&s->outbox) < 0 || s->ended_fd < 0 || !s->owner) {
        session_free(s);
        return NULL;
    }
    s->peer = mcp_peer_new(http->options.mcp, send_unasked, s);
    if (!s->peer) {
        session_free(s);
        return NULL;
    }
    sys_make_id('m', low);
    sys_make_id('m', high);
    (void)snprintf(s->id, sizeof s->id, "%s%s%s%s", node, *node ? "-" : "", low + 2,
                   high + 2);
    s->users = 1;
    s->used_ns = clock_now_ns();
    return s;
}

/* With the lock held. */
static void take_out(struct mcp_http *http, struct http_session *s)
{
    struct http_session **at = &http->sessions;
    const uint64_t one = 1;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    http->session_count--;
    s->ended = true;
    (void)!write(s->ended_fd, &one, sizeof one);
}

/* With the lock held: one that nobody has used for long, or NULL. */
static struct http_session *take_stale(struct mcp_http *http)
{
    int64_t before_ns = clock_now_ns() - IDLE_NS;

    for (struct http_session *s = http->sessions; s; s = s->next)
        if (s->users == 0 && s->used_ns < before_ns) {
            take_out(http, s);
            return s;
        }
    return NULL;
}

/* With the lock held: an owner who has as many as may be loses the one that was used
 * least lately, rather than others their places; or NULL. */
static struct http_session *take_surplus(struct mcp_http *http, const char *owner)
{
    struct http_session *oldest = NULL;
    unsigned count = 0;

    for (struct http_session *s = http->sessions; s; s = s->next) {
        if (strcmp(s->owner, owner) != 0)
            continue;
        count++;
        if (s->users == 0 && (!oldest || s->used_ns < oldest->used_ns))
            oldest = s;
    }
    if (count * SHARE < http->options.sessions || !oldest)
        return NULL;
    take_out(http, oldest);
    return oldest;
}

struct http_session *http_session_new(struct mcp_http *http, const char *owner)
{
    struct http_session *s = session_make(http, owner), *stale;
    bool room = false;

    if (!s)
        return NULL;
    (void)pthread_mutex_lock(&http->lock);
    stale = take_stale(http);
    if (!stale)
        stale = take_surplus(http, owner);
    room = http->session_count < http->options.sessions;
    if (room) {
        s->next = http->sessions;
        http->sessions = s;
        http->session_count++;
    }
    (void)pthread_mutex_unlock(&http->lock);
    if (stale)
        session_free(stale);
    if (room)
        return s;
    session_free(s);
    return NULL;
}

struct http_session *http_session_take(struct mcp_http *http, const char *owner,
                                       const char *id)
{
    struct http_session *found = NULL;

    (void)pthread_mutex_lock(&http->lock);
    for (struct http_session *s = http->sessions; s && !found; s = s->next)
        if (strcmp(s->id, id) == 0 && strcmp(s->owner, owner) == 0)
            found = s;
    if (found) {
        found->users++;
        found->used_ns = clock_now_ns();
    }
    (void)pthread_mutex_unlock(&http->lock);
    return found;
}

void http_session_release(struct mcp_http *http, struct http_session *session)
{
    bool last;

    (void)pthread_mutex_lock(&http->lock);
    session->used_ns = clock_now_ns();
    last = --session->users == 0 && session->ended;
    (void)pthread_mutex_unlock(&http->lock);
    if (last)
        session_free(session);
}

void http_session_end(struct mcp_http *http, struct http_session *session)
{
    bool first;

    (void)pthread_mutex_lock(&http->lock);
    first = !session->ended;
    if (first)
        take_out(http, session);
    (void)pthread_mutex_unlock(&http->lock);
    if (first)
        mcp_peer_cancel_all(session->peer);
}
