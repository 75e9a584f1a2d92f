/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/gojudge_ws.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/thread.h"
#include "model/value.h"
#include "web/websocket.h"

#define ERRANDS_MOST 64u
#define LOOK_MS      1000

/* One request that runs. */
struct errand {
    struct talk *talk;
    char *id;
    json_t *body;
    size_t bytes;  /* of the caller's share of bodies */
    int cancel_fd; /* an eventfd */
    bool cancelled;
    struct errand *next;
};

struct talk {
    struct call *call;
    struct web_socket *socket;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct errand *first;
    unsigned count;
};

static void tell(struct talk *t, const char *id, const char *error)
{
    auto_json json_t *told =
        json_pack("{s:s, s:[], s:s}", "requestId", id, "results", "error", error);

    if (told)
        (void)web_socket_send_json(t->socket, -1, told, NULL);
}

static void tell_results(void *context, json_t *results,
                         const struct json_larges *larges, uint64_t bytes)
{
    const struct errand *e = context;
    auto_json json_t *told =
        json_pack("{s:s, s:O}", "requestId", e->id, "results", results);

    (void)bytes;
    if (told)
        (void)web_socket_send_json(e->talk->socket, -1, told, larges);
}

static void give(struct talk *t, size_t bytes)
{
    struct gate *gate = &t->call->serve->gate;

    gate_give(gate, t->call->caller, GATE_BODIES, bytes);
    gate_give(gate, t->call->caller, GATE_REQUESTS, 1);
}

/* A request's place, and room for its body while it is under way. */
static bool take(struct talk *t, size_t bytes)
{
    struct gate *gate = &t->call->serve->gate;

    if (t->count >= ERRANDS_MOST || !gate_take(gate, t->call->caller, GATE_REQUESTS, 1))
        return false;
    if (gate_take(gate, t->call->caller, GATE_BODIES, bytes))
        return true;
    gate_give(gate, t->call->caller, GATE_REQUESTS, 1);
    return false;
}

static void forget(struct errand *e)
{
    struct talk *t = e->talk;
    struct errand **at = &t->first;

    give(t, e->bytes);
    (void)pthread_mutex_lock(&t->lock);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    (void)close(e->cancel_fd);
    json_decref(e->body);
    free(e->id);
    free(e);
    t->count--;
    (void)pthread_cond_broadcast(&t->changed);
    (void)pthread_mutex_unlock(&t->lock);
}

static void *work(void *context)
{
    struct errand *e = context;
    const struct gojudge_teller to = { tell_results, e };
    struct vial_error err = { 0 };
    bool cancelled;
    int rc = gojudge_run(e->talk->call, e->body, e->cancel_fd, NULL, &to, &err);

    (void)pthread_mutex_lock(&e->talk->lock);
    cancelled = e->cancelled;
    (void)pthread_mutex_unlock(&e->talk->lock);
    if (rc < 0)
        tell(e->talk, e->id,
             cancelled ? "request cancelled before execute" : err.message);
    forget(e);
    return NULL;
}

/* With the lock held. */
static struct errand *find(struct talk *t, const char *id)
{
    struct errand *e = t->first;

    while (e && strcmp(e->id, id) != 0)
        e = e->next;
    return e;
}

static struct errand *make(struct talk *t, const char *id, json_t *body, size_t bytes)
{
    struct errand *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->talk = t;
    e->id = strdup(id);
    e->body = json_incref(body);
    e->bytes = bytes;
    e->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_lock(&t->lock);
    e->next = t->first;
    t->first = e;
    t->count++;
    (void)pthread_mutex_unlock(&t->lock);
    return e;
}

static void start(struct talk *t, const char *id, json_t *body, size_t bytes)
{
    struct errand *e = NULL;

    if (take(t, bytes)) {
        e = make(t, id, body, bytes);
        if (!e)
            give(t, bytes);
    }
    if (e && e->id && e->cancel_fd >= 0 &&
        thread_start_alone(THREAD_STACK, work, e) == 0)
        return;
    if (e)
        forget(e);
    tell(t, id, "too many requests are under way");
}

static void cancel(struct talk *t, const char *id)
{
    struct errand *e;

    (void)pthread_mutex_lock(&t->lock);
    e = find(t, id);
    if (e) {
        e->cancelled = true;
        (void)eventfd_write(e->cancel_fd, 1);
    }
    (void)pthread_mutex_unlock(&t->lock);
}

static void hear(struct talk *t, const char *data, size_t len)
{
    auto_json json_t *body = NULL;
    struct vial_error err = { 0 };
    const char *id, *other;
    char text[160];
    bool twice;

    if (json_parse(data, len, "request", &body, &err) < 0) {
        tell(t, "", err.message);
        return;
    }
    other = value_string(json_object_get(body, "cancelRequestId"));
    id = value_string(json_object_get(body, "requestId"));
    if (other) {
        cancel(t, other);
    } else if (!id || !*id) {
        tell(t, "", "empty request id");
    } else {
        (void)pthread_mutex_lock(&t->lock);
        twice = find(t, id) != NULL;
        (void)pthread_mutex_unlock(&t->lock);
        (void)snprintf(text, sizeof(text), "duplicated request id: \"%.100s\"", id);
        if (twice)
            tell(t, id, text);
        else
            start(t, id, body, len);
    }
}

/* The client has gone: nobody wants what still runs. */
static void end(struct talk *t)
{
    (void)pthread_mutex_lock(&t->lock);
    for (struct errand *e = t->first; e; e = e->next)
        (void)eventfd_write(e->cancel_fd, 1);
    while (t->count > 0)
        (void)pthread_cond_wait(&t->changed, &t->lock);
    (void)pthread_mutex_unlock(&t->lock);
}

void gojudge_ws(struct call *c)
{
    size_t most = (size_t)c->gen->settings->serve.body;
    struct talk t = { .call = c, .socket = web_socket_open(c->web, most) };
    enum web_socket_said said = WEB_SOCKET_NOTHING;
    const char *data;
    size_t len;

    c->status = t.socket ? 101 : 426;
    if (!t.socket)
        return;
    web_socket_ping(t.socket, GOJUDGE_PING_MS, GOJUDGE_PONG_MS);
    (void)pthread_mutex_init(&t.lock, NULL);
    thread_cond_init(&t.changed);
    while (said != WEB_SOCKET_GONE && !c->serve->draining) {
        said = web_socket_read(t.socket, LOOK_MS, &data, &len);
        if (said == WEB_SOCKET_MESSAGE)
            hear(&t, data, len);
    }
    end(&t);
    web_socket_close(t.socket, 1001, "going away");
    (void)pthread_cond_destroy(&t.changed);
    (void)pthread_mutex_destroy(&t.lock);
}
