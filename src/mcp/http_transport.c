/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/http_transport.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "mcp/http_parts.h"
#include "mcp/pulse.h"

#define JSON_TYPE   "application/json"
#define EVENTS_TYPE "text/event-stream"

/* One HTTP request, and how far its answer has got. */
struct answer {
    struct web_request *req;
    const char *correlation;
    const char *session_id; /* to be told, or NULL */
    pthread_mutex_t lock;   /* for what follows: a heart beats in a thread of its own */
    bool streaming;
};

static void reply_json(struct answer *a, unsigned status, json_t *message)
{
    auto_free char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

    json_decref(message);
    if (a->session_id)
        (void)web_set_header(a->req, "Mcp-Session-Id", a->session_id);
    (void)web_reply(a->req, text ? status : 500, JSON_TYPE, text ? text : "{}",
                    text ? strlen(text) : 2);
}

static void reply_error(struct answer *a, const json_t *id, const struct rpc_error *err)
{
    reply_json(a, err->http ? err->http : 200, rpc_error(id, err));
}

__attribute__((format(printf, 5, 6))) static void refuse(struct answer *a,
                                                         const json_t *id,
                                                         unsigned status,
                                                         enum rpc_code code,
                                                         const char *format, ...)
{
    auto_rpc_error struct rpc_error err = { .code = code, .http = status };
    va_list args;

    va_start(args, format);
    (void)vsnprintf(err.message, sizeof err.message, format, args);
    va_end(args);
    reply_error(a, id, &err);
}

static void start_events(struct answer *a)
{
    if (a->streaming)
        return;
    a->streaming = true;
    (void)web_set_header(a->req, "Cache-Control", "no-cache");
    (void)web_set_header(a->req, "X-Accel-Buffering", "no");
    if (a->session_id)
        (void)web_set_header(a->req, "Mcp-Session-Id", a->session_id);
    (void)web_start(a->req, 200, EVENTS_TYPE);
}

/* What is told while a call goes on never waits for the client; who takes nothing
 * misses some of it. */
static bool may_miss(const struct answer *a)
{
    uint64_t taken;

    return web_queued(a->req, &taken) >= WEB_QUEUE_BYTES;
}

/* Takes MESSAGE. LAST: it is the answer. */
static void write_event(struct answer *a, json_t *message, bool last)
{
    auto_free char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    auto_str struct str event = { 0 };

    json_decref(message);
    str_printf(&event, "event: message\ndata: %s\n\n", text ? text : "{}");
    (void)pthread_mutex_lock(&a->lock);
    start_events(a);
    if (text && str_ok(&event) && last)
        (void)web_write(a->req, event.data, event.len);
    else if (text && str_ok(&event) && !may_miss(a))
        (void)web_push(a->req, event.data, event.len);
    (void)pthread_mutex_unlock(&a->lock);
}

/* A comment, which clients skip and whatever lies between takes for a sign of life. */
static void write_comment(struct answer *a)
{
    if (!may_miss(a))
        (void)web_push(a->req, ":\n\n", 3);
}

/* A quiet call becomes a stream by its first heartbeat. */
static void beat(void *context)
{
    struct answer *a = context;

    (void)pthread_mutex_lock(&a->lock);
    start_events(a);
    write_comment(a);
    (void)pthread_mutex_unlock(&a->lock);
}

static bool takes_events(const struct answer *a)
{
    const char *accept = web_header(a->req, "Accept");

    return accept && strstr(accept, EVENTS_TYPE);
}

/* What a tool does can take long, and need not say anything meanwhile. */
static json_t *answer_alive(const struct mcp_http *http, struct answer *a,
                            struct mcp_exchange *x, bool modern, unsigned *status)
{
    struct pulse pulse = { .beat = beat,
                           .context = a,
                           .every_ms = http->options.heartbeat_ms };
    bool beats = strcmp(x->message->method, "tools/call") == 0 && takes_events(a);
    json_t *reply;

    if (beats)
        pulse_start(&pulse);
    reply = mcp_answer(x, modern, status);
    if (beats)
        pulse_stop(&pulse);
    return reply;
}

/* From JSON to a stream as soon as there is something to say meanwhile. */
static void send_meanwhile(struct mcp_exchange *x, json_t *message)
{
    struct answer *a = x->transport;

    if (message) {
        write_event(a, message, false);
        return;
    }
    (void)pthread_mutex_lock(&a->lock);
    if (a->streaming)
        write_comment(a);
    (void)pthread_mutex_unlock(&a->lock);
}

static int write_piece(void *context, const void *data, size_t len)
{
    return web_write(context, data, len);
}

/* A long answer: it is not copied, and is ours until the client has taken it. */
static void reply_pieces(struct answer *a, unsigned status, json_t *message)
{
    const struct json_sink to = { write_piece, a->req };

    if (a->session_id)
        (void)web_set_header(a->req, "Mcp-Session-Id", a->session_id);
    if (web_start(a->req, status, JSON_TYPE) < 0 ||
        json_write(message, NULL, JSON_STYLE_COMPACT, &to) < 0)
        web_abort(a->req);
    else
        web_end(a->req);
    json_decref(message);
}

static void finish(struct answer *a, struct mcp_exchange *x, unsigned status,
                   json_t *reply)
{
    if (a->streaming) {
        write_event(a, reply, true);
        web_end(a->req);
    } else if (reply && x->paid > WEB_QUEUE_BYTES) {
        reply_pieces(a, status, reply);
    } else {
        reply_json(a, status, reply);
    }
    mcp_give_back(x);
}

/* The answer to a request that was cancelled: an end, and nothing else. */
static void finish_without(struct answer *a)
{
    start_events(a);
    web_end(a->req);
}

static void serve_modern(struct mcp_http *http, struct answer *a,
                         const struct rpc_message *m, const char *owner)
{
    auto_rpc_error struct rpc_error err = { 0 };
    struct mcp_exchange x = { .mcp = http->options.mcp,
                              .owner = owner,
                              .correlation = a->correlation,
                              .message = m,
                              .cancel_fd = web_gone_fd(a->req),
                              .send = send_meanwhile,
                              .transport = a };
    unsigned status;
    json_t *reply;

    if (m->kind != RPC_REQUEST) {
        (void)web_reply(a->req, 202, NULL, NULL, 0);
        return;
    }
    if (http_check_headers(a->req, m, &err) < 0) {
        reply_error(a, m->id, &err);
        return;
    }
    reply = answer_alive(http, a, &x, true, &status);
    finish(a, &x, status, reply);
}

/* Readable when either is: an epoll is a descriptor like others. */
static int either(int one, int two)
{
    struct epoll_event event = { .events = EPOLLIN };
    int fd = epoll_create1(EPOLL_CLOEXEC);

    if (fd < 0)
        return -1;
    if (epoll_ctl(fd, EPOLL_CTL_ADD, one, &event) == 0 &&
        (two < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, two, &event) == 0))
        return fd;
    (void)close(fd);
    return -1;
}

static void serve_request(struct mcp_http *http, struct answer *a,
                          const struct rpc_message *m, struct http_session *s)
{
    auto_rpc_error struct rpc_error err = { 0 };
    struct mcp_exchange x = { .mcp = http->options.mcp,
                              .peer = s->peer,
                              .owner = s->owner,
                              .correlation = a->correlation,
                              .message = m,
                              .send = send_meanwhile,
                              .transport = a };
    struct mcp_flight *flight;
    auto_fd int cancel_fd = -1;
    unsigned status = 200;
    json_t *reply = NULL;
    int flight_fd;

    if (mcp_flight_begin(s->peer, m->id, &flight, &flight_fd, &err) < 0) {
        reply_error(a, m->id, &err);
        return;
    }
    cancel_fd = either(flight_fd, web_gone_fd(a->req));
    x.cancel_fd = cancel_fd;
    if (cancel_fd >= 0)
        reply = answer_alive(http, a, &x, false, &status);
    if (mcp_flight_end(s->peer, flight)) {
        json_decref(reply);
        mcp_give_back(&x);
        finish_without(a);
    } else {
        finish(a, &x, status, reply);
    }
}

static void serve_elder(struct mcp_http *http, struct answer *a,
                        const struct rpc_message *m, const char *owner)
{
    const char *id = web_header(a->req, "Mcp-Session-Id");
    bool begins = m->kind == RPC_REQUEST && strcmp(m->method, "initialize") == 0;
    struct http_session *s;

    if (!begins && !id) {
        refuse(a, m->id, 400, RPC_INVALID,
               "Bad Request: the header Mcp-Session-Id is missing");
        return;
    }
    s = begins ? http_session_new(http, owner) : http_session_take(http, owner, id);
    if (!s) {
        refuse(a, m->id, begins ? 503 : 404, RPC_INVALID, "%s",
               begins ? "too many sessions" : "Session not found");
        return;
    }
    a->session_id = s->id;
    if (m->kind == RPC_REQUEST) {
        serve_request(http, a, m, s);
    } else {
        mcp_take(s->peer, m);
        (void)web_reply(a->req, 202, NULL, NULL, 0);
    }
    if (begins && !*mcp_peer_version(s->peer))
        http_session_end(http, s); /* it was no good beginning */
    http_session_release(http, s);
}

static void serve_post(struct mcp_http *http, struct answer *a, const char *owner)
{
    auto_rpc_error struct rpc_error err = { 0 };
    auto_rpc_message struct rpc_message m = { 0 };
    auto_json json_t *id = NULL;
    const char *version = web_header(a->req, "MCP-Protocol-Version");
    size_t len;
    const char *body = web_body(a->req, &len);

    if (rpc_read(body, len, &m, &id, &err) < 0)
        reply_error(a, id, &err);
    else if (mcp_is_modern(&m, version))
        serve_modern(http, a, &m, owner);
    else
        serve_elder(http, a, &m, owner);
}

/* What the server says unasked, for as long as the client listens. */
static void stream_unasked(struct answer *a, struct http_session *s, int heartbeat_ms)
{
    struct mcp_exchange x = { .cancel_fd = web_gone_fd(a->req),
                              .send = send_meanwhile,
                              .transport = a };

    start_events(a);
    while (!outbox_pass_on(&s->outbox, &x, s->ended_fd, heartbeat_ms))
        x.send(&x, NULL);
    web_end(a->req);
}

static bool claim_stream(struct mcp_http *http, struct http_session *s, bool on)
{
    bool before;

    (void)pthread_mutex_lock(&http->lock);
    before = s->streamed;
    s->streamed = on;
    (void)pthread_mutex_unlock(&http->lock);
    return !before;
}

static void serve_get(struct mcp_http *http, struct answer *a, const char *owner)
{
    const char *id = web_header(a->req, "Mcp-Session-Id");
    struct http_session *s = id ? http_session_take(http, owner, id) : NULL;

    if (!s) {
        (void)web_set_header(a->req, "Allow", "POST");
        refuse(a, NULL, id ? 404 : 405, RPC_INVALID, "%s",
               id ? "Session not found" : "Method Not Allowed");
        return;
    }
    if (!takes_events(a)) {
        refuse(a, NULL, 406, RPC_INVALID, "Not Acceptable: accept " EVENTS_TYPE);
    } else if (!claim_stream(http, s, true)) {
        refuse(a, NULL, 409, RPC_INVALID, "Conflict: the session has a stream already");
    } else {
        a->session_id = s->id;
        stream_unasked(a, s, (int)http->options.heartbeat_ms);
        (void)claim_stream(http, s, false);
    }
    http_session_release(http, s);
}

static void serve_delete(struct mcp_http *http, struct answer *a, const char *owner)
{
    const char *id = web_header(a->req, "Mcp-Session-Id");
    struct http_session *s = id ? http_session_take(http, owner, id) : NULL;

    if (!s) {
        refuse(a, NULL, id ? 404 : 405, RPC_INVALID, "%s",
               id ? "Session not found" : "Method Not Allowed");
        return;
    }
    http_session_end(http, s);
    http_session_release(http, s);
    (void)web_reply(a->req, 204, NULL, NULL, 0);
}

void mcp_http_handle(struct mcp_http *http, struct web_request *req,
                     const struct mcp_asker *who)
{
    const char *method = web_method(req);
    struct answer a = { .req = req,
                        .correlation = who->correlation,
                        .lock = PTHREAD_MUTEX_INITIALIZER };

    if (!http_is_ours(http, req)) {
        refuse(&a, NULL, 403, RPC_INVALID, "Forbidden: unknown Host or Origin");
    } else if (strcmp(method, "POST") == 0) {
        serve_post(http, &a, who->owner);
    } else if (strcmp(method, "GET") == 0) {
        serve_get(http, &a, who->owner);
    } else if (strcmp(method, "DELETE") == 0) {
        serve_delete(http, &a, who->owner);
    } else {
        (void)web_set_header(req, "Allow", "POST, GET, DELETE");
        refuse(&a, NULL, 405, RPC_INVALID, "Method Not Allowed");
    }
}
