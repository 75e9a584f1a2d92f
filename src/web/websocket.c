/* SPDX-License-Identifier: Apache-2.0 */
#include "web/websocket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "http/ws_frame.h"
#include "web/raw.h"
#include "web/server.h"

#define PIECE     ((size_t)16 << 10)
#define SHORT     125u
#define LINGER_MS 1000 /* for the client's own close */
#define MS_NS     INT64_C(1000000)

struct web_socket {
    struct web_request *req;
    struct web_raw *raw; /* NULL: not yet */
    int fd;              /* its own */
    size_t most;
    struct str in; /* what has come, from IN_AT on */
    size_t in_at;
    struct str message; /* its parts so far */
    bool open;          /* a message has begun */
    size_t paid;        /* of the caller's share of bodies, for both */
    bool gone, said_close;
    int64_t ping_ns, answer_ns; /* each so often, and so long is waited; 0: never */
    int64_t next_ns;            /* when it is pinged */
    int64_t asked_ns;           /* since when an answer is waited for; 0: it is not */
    pthread_mutex_t sending;
};

static bool has_word(const char *list, const char *word)
{
    return list && strcasestr(list, word) != NULL;
}

static bool is_asked_for(const struct web_request *req)
{
    const char *key = web_header(req, "Sec-WebSocket-Key");
    const char *version = web_header(req, "Sec-WebSocket-Version");

    return has_word(web_header(req, "Upgrade"), "websocket") &&
           has_word(web_header(req, "Connection"), "upgrade") && version &&
           strcmp(version, "13") == 0 && key && strlen(key) == 24 &&
           !web_header_repeated(req, "Sec-WebSocket-Key");
}

/* False: the client was gone before, or there is no memory. */
static bool open_raw(struct web_socket *s)
{
    auto_str struct str accept = { 0 };
    const char *first;
    size_t len;

    ws_accept(&accept, web_header(s->req, "Sec-WebSocket-Key"));
    if (!str_ok(&accept) ||
        web_set_header(s->req, "Sec-WebSocket-Accept", accept.data) < 0)
        return false;
    s->raw = web_raw_open(s->req, "websocket");
    if (!s->raw)
        return false;
    s->fd = web_raw_fd(s->raw);
    first = web_raw_first(s->raw, &len);
    str_add(&s->in, first, len);
    return true;
}

/* With BYTES in all. False: the caller has no room for them. */
static bool pay(struct web_socket *s, size_t bytes)
{
    const struct web_options *o = &s->req->web->options;
    size_t more = bytes > s->paid ? bytes - s->paid : 0;

    if (!o->door || !s->req->place.caller || more == 0)
        return true;
    more = (more + PIECE - 1) / PIECE * PIECE;
    if (!o->door->take(o->context, s->req->place.caller, WEB_BODIES, more))
        return false;
    s->paid += more;
    return true;
}

/* All but what BYTES cost. */
static void give_back(struct web_socket *s, size_t bytes)
{
    const struct web_options *o = &s->req->web->options;
    size_t kept = (bytes + PIECE - 1) / PIECE * PIECE;

    if (s->paid <= kept)
        return;
    o->door->give(o->context, s->req->place.caller, WEB_BODIES, s->paid - kept);
    s->paid = kept;
}

static void release(struct web_socket *s)
{
    if (s->raw)
        web_raw_close(s->raw);
    give_back(s, 0);
    str_done(&s->in);
    str_done(&s->message);
    (void)pthread_mutex_destroy(&s->sending);
    free(s);
}

struct web_socket *web_socket_open(struct web_request *req, size_t most)
{
    struct web_socket *s = NULL;

    if (!is_asked_for(req)) {
        (void)web_set_header(req, "Sec-WebSocket-Version", "13");
        (void)web_reply(req, 426, "text/plain", "a WebSocket is served here\n", 27);
        return NULL;
    }
    s = calloc(1, sizeof(*s));
    if (!s || pthread_mutex_init(&s->sending, NULL) != 0) {
        free(s);
        return NULL;
    }
    s->req = req;
    s->most = most;
    if (open_raw(s))
        return s;
    release(s);
    return NULL;
}

/* Whether EVENTS came within the time; never once the server ends. */
static bool await_events(struct web_socket *s, short events, int timeout_ms)
{
    struct pollfd fds[] = { { .fd = s->fd, .events = events },
                            { .fd = s->req->web->ending_fd, .events = POLLIN } };

    if (poll(fds, 2, timeout_ms) <= 0)
        return false;
    s->gone = s->gone || fds[1].revents != 0;
    return !fds[1].revents;
}

/* With `sending` held. */
static int send_bytes(struct web_socket *s, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0 && !s->gone) {
        ssize_t sent = send(s->fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent > 0) {
            at += sent;
            len -= (size_t)sent;
        } else if ((errno != EAGAIN && errno != EINTR) ||
                   !await_events(s, POLLOUT, (int)s->req->web->options.slow_s * 1000)) {
            s->gone = true;
        }
    }
    return s->gone ? -1 : 0;
}

static int send_frame(struct web_socket *s, unsigned opcode, const void *data,
                      size_t len)
{
    unsigned char head[10 + SHORT];
    size_t head_len = ws_frame_head(head, opcode, len);
    int rc;

    /* What is short goes out at once: nothing of a close is lost to one's own. */
    if (len > 0 && len <= SHORT) {
        memcpy(head + head_len, data, len);
        head_len += len;
        len = 0;
    }
    (void)pthread_mutex_lock(&s->sending);
    rc = s->said_close ? -1 : send_bytes(s, head, head_len);
    if (rc == 0)
        rc = send_bytes(s, data, len);
    s->said_close = s->said_close || opcode == OP_CLOSE;
    (void)pthread_mutex_unlock(&s->sending);
    return rc;
}

int web_socket_send(struct web_socket *s, const char *text, size_t len)
{
    return send_frame(s, OP_TEXT, text, len);
}

int web_socket_send_bytes(struct web_socket *s, const char *data, size_t len)
{
    return send_frame(s, OP_BINARY, data, len);
}

static int count_piece(void *context, const void *data, size_t len)
{
    size_t *all = context;

    (void)data;
    *all += len;
    return 0;
}

/* A message whose length was said, while it is sent. */
struct long_message {
    struct web_socket *s;
    size_t left;
};

static int send_piece(void *context, const void *data, size_t len)
{
    struct long_message *m = context;

    if (len > m->left || send_bytes(m->s, data, len) < 0)
        return -1;
    m->left -= len;
    return 0;
}

int web_socket_send_json(struct web_socket *s, int first, const json_t *value,
                         const struct json_larges *larges)
{
    const char byte = (char)first;
    size_t before = first < 0 ? 0 : 1;
    struct long_message m = { .s = s };
    const struct json_sink count = { count_piece, &m.left };
    const struct json_sink pieces = { send_piece, &m };
    unsigned char head[10];
    int rc;

    if (json_write(value, larges, JSON_STYLE_COMPACT, &count) < 0)
        return -1;
    (void)pthread_mutex_lock(&s->sending);
    rc = s->said_close ? -1
                       : send_bytes(s, head,
                                    ws_frame_head(head, before ? OP_BINARY : OP_TEXT,
                                                  before + m.left));
    if (rc == 0) {
        rc = send_bytes(s, &byte, before);
        if (rc == 0)
            rc = json_write(value, larges, JSON_STYLE_COMPACT, &pieces);
        s->gone = s->gone || rc < 0 || m.left > 0; /* the client waits for the rest */
    }
    (void)pthread_mutex_unlock(&s->sending);
    return rc;
}

static void say_close(struct web_socket *s, unsigned code, const char *reason)
{
    char text[SHORT];
    int len = snprintf(text + 2, sizeof(text) - 2, "%s", reason);

    text[0] = (char)(code >> 8);
    text[1] = (char)(code & 0xff);
    (void)send_frame(s, OP_CLOSE, text, 2 + (size_t)len);
}

/* The bytes in front that were used. */
static void close_up(struct web_socket *s)
{
    if (s->in_at == 0)
        return;
    memmove(s->in.data, s->in.data + s->in_at, s->in.len - s->in_at);
    s->in.len -= s->in_at;
    s->in_at = 0;
}

/* What was used goes, with the room that it took. */
static void tidy(struct web_socket *s)
{
    struct str rest = { 0 };

    close_up(s);
    if (s->in.cap > 4 * PIECE && s->in.len <= PIECE) {
        str_add(&rest, s->in.data, s->in.len);
        str_done(&s->in);
        s->in = rest;
        s->gone = s->gone || rest.failed;
    }
    give_back(s, s->in.len + s->message.len);
}

void web_socket_ping(struct web_socket *s, int every_ms, int answer_ms)
{
    s->ping_ns = (int64_t)every_ms * MS_NS;
    s->answer_ns = (int64_t)answer_ms * MS_NS;
    s->next_ns = clock_now_ns() + s->ping_ns;
}

static void ping(struct web_socket *s)
{
    int64_t now_ns = clock_now_ns();

    if (!s->ping_ns || s->asked_ns || now_ns < s->next_ns)
        return;
    s->asked_ns = now_ns;
    s->next_ns = now_ns + s->ping_ns;
    s->gone = send_frame(s, OP_PING, "", 0) < 0 || s->gone;
}

/* Where nothing is to be read any more: what waited there is an answer, too. */
static bool is_silent(const struct web_socket *s)
{
    return s->asked_ns && clock_now_ns() - s->asked_ns > s->answer_ns;
}

/* More bytes, or false. */
static bool receive(struct web_socket *s, int timeout_ms)
{
    char piece[PIECE];
    ssize_t got;

    if (!await_events(s, POLLIN, timeout_ms)) {
        s->gone = s->gone || is_silent(s);
        return false;
    }
    s->asked_ns = 0;
    got = recv(s->fd, piece, sizeof(piece), MSG_DONTWAIT);
    if (got <= 0) {
        s->gone = got == 0 || (errno != EAGAIN && errno != EINTR);
        return !s->gone;
    }
    close_up(s);
    if (!pay(s, s->in.len + (size_t)got + s->message.len)) {
        say_close(s, 1013, "there is no room for the message now");
        s->gone = true;
        return false;
    }
    str_add(&s->in, piece, (size_t)got);
    s->gone = s->gone || !str_ok(&s->in);
    return !s->gone;
}

static bool add_part(struct web_socket *s, const struct frame *f)
{
    if (f->first == s->open || s->message.len + f->len > s->most)
        return false;
    s->open = f->kind == FRAME_PART;
    str_add(&s->message, f->data, f->len);
    return str_ok(&s->message);
}

/* One frame; true: a message is whole. */
static bool take_frame(struct web_socket *s, const struct frame *f)
{
    s->in_at += f->taken;
    switch (f->kind) {
    case FRAME_WHOLE:
    case FRAME_PART:
        if (add_part(s, f))
            return f->kind == FRAME_WHOLE;
        say_close(s, 1009, "message too big, or out of order");
        s->gone = true;
        break;
    case FRAME_PING:
        (void)send_frame(s, OP_PONG, f->data, f->len);
        break;
    case FRAME_CLOSE:
        say_close(s, 1000, "");
        s->gone = true;
        break;
    case FRAME_BAD:
        say_close(s, f->code, "");
        s->gone = true;
        break;
    case FRAME_PONG:
    case FRAME_MORE:
        break;
    }
    return false;
}

enum web_socket_said web_socket_read(struct web_socket *s, int timeout_ms,
                                     const char **data, size_t *len)
{
    int64_t until_ns = clock_now_ns() + (int64_t)timeout_ms * MS_NS;

    if (!s->open) {
        str_done(&s->message);
        tidy(s);
    }
    ping(s);
    while (!s->gone) {
        int64_t left_ms = (until_ns - clock_now_ns()) / MS_NS;
        struct frame f = { .kind = FRAME_MORE };

        if (s->in.len > s->in_at)
            f = ws_frame_read(s->in.data + s->in_at, s->in.len - s->in_at, s->most);
        if (f.kind != FRAME_MORE) {
            if (!take_frame(s, &f))
                continue;
            tidy(s);
            *data = s->message.data ? s->message.data : "";
            *len = s->message.len;
            return WEB_SOCKET_MESSAGE;
        }
        if (!receive(s, left_ms > 0 ? (int)left_ms : 0) && left_ms <= 0)
            break;
    }
    return s->gone ? WEB_SOCKET_GONE : WEB_SOCKET_NOTHING;
}

void web_socket_close(struct web_socket *s, unsigned code, const char *reason)
{
    int64_t until_ns = clock_now_ns() + (int64_t)LINGER_MS * MS_NS;
    const char *data;
    size_t len;

    if (!s->gone)
        say_close(s, code, reason);
    while (!s->gone && clock_now_ns() < until_ns)
        (void)web_socket_read(s, LINGER_MS, &data, &len);
    release(s);
}
