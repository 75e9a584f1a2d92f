/* SPDX-License-Identifier: Apache-2.0 */
#include "secrets/http2.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC     24          /* bytes that a client begins with */
#define HEAD_BOMB (64u << 10) /* a few bytes can stand for so many */

const bool http2_there = true;

static bool is_client(const struct end *end)
{
    return end == &end->of->client;
}

static enum gate_verdict fault_of(const struct end *end)
{
    return is_client(end) ? GATE_REQUEST : GATE_RESPONSE;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame,
                            void *end)
{
    (void)session;
    (void)frame;
    told_head_clear(&((struct end *)end)->coming);
    return 0;
}

/* NOLINTNEXTLINE(readability-function-size): the library's */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame,
                     const uint8_t *name, size_t name_len, const uint8_t *value,
                     size_t len, uint8_t flags, void *end)
{
    struct told_head *coming = &((struct end *)end)->coming;

    (void)session;
    (void)frame;
    (void)flags;
    told_head_add(coming, name, name_len, value, len);
    return coming->size > HEAD_BOMB ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* The library would leave it out, and pass on the rest. */
static int on_bad_header(nghttp2_session *session, const nghttp2_frame *frame,
                         nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags,
                         void *end)
{
    (void)session;
    (void)frame;
    (void)name;
    (void)value;
    (void)flags;
    exchange_blame(((struct end *)end)->of->e, fault_of(end));
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void take_head(struct end *end, const nghttp2_frame *frame, bool ends)
{
    struct http2 *h = end->of;
    struct stream *s = NULL;

    if (!is_client(end)) {
        s = stream_find(h, end, frame->hd.stream_id);
        if (s)
            stream_answer(h, s, ends);
    } else if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        stream_ask(h, frame->hd.stream_id, ends);
    } else {
        stream_trailed(h, frame->hd.stream_id);
    }
    told_head_clear(&end->coming);
}

static void tell_settings(struct end *end, uint32_t streams)
{
    const nghttp2_settings_entry client[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, CLIENT_WINDOW },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_MAX },
        { NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
    };
    const nghttp2_settings_entry host[] = {
        { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HOST_WINDOW },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_MAX },
        { NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
    };

    (void)nghttp2_submit_settings(end->session, NGHTTP2_FLAG_NONE,
                                  is_client(end) ? client : host,
                                  sizeof client / sizeof *client);
    _Static_assert(sizeof client == sizeof host, "as many");
}

/* The client is told how many streams the host takes, and when it takes no more. */
static void pass_on(struct http2 *h, const nghttp2_frame *frame)
{
    if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        uint32_t most = nghttp2_session_get_remote_settings(
            h->host.session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

        if (most != h->most) {
            h->most = most;
            tell_settings(&h->client, most < STREAMS_MOST ? most : STREAMS_MOST);
        }
    }
    if (frame->hd.type == NGHTTP2_GOAWAY && !h->leaving) {
        h->leaving = true;
        (void)nghttp2_submit_goaway(
            h->client.session, NGHTTP2_FLAG_NONE,
            nghttp2_session_get_last_proc_stream_id(h->client.session),
            NGHTTP2_NO_ERROR, NULL, 0);
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *at)
{
    struct end *end = at;
    bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    (void)session;
    if (frame->hd.type == NGHTTP2_PUSH_PROMISE)
        return NGHTTP2_ERR_CALLBACK_FAILURE; /* nobody asked */
    if (frame->hd.type == NGHTTP2_HEADERS)
        take_head(end, frame, ends);
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) && ends)
        stream_ends(end, frame->hd.stream_id);
    if (!is_client(end))
        pass_on(end->of, frame);
    return 0;
}

static int on_bad_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                        void *end)
{
    (void)session;
    (void)frame;
    (void)error;
    exchange_blame(((struct end *)end)->of->e, fault_of(end));
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id,
                   const uint8_t *data, size_t len, void *end)
{
    (void)session;
    (void)flags;
    stream_data(end, id, data, len);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *at)
{
    struct end *end = at;

    (void)session;
    if (error == NGHTTP2_NO_ERROR)
        end->patience += PATIENCE_REQUEST;
    stream_gone(end, id, error);
    return 0;
}

/* A request that never went out: its client left first, or the host takes no more. */
static int on_unsent(nghttp2_session *session, const nghttp2_frame *frame, int error,
                     void *at)
{
    struct end *end = at;

    (void)session;
    (void)error;
    if (!is_client(end) && frame->hd.type == NGHTTP2_HEADERS)
        stream_gone(end, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
    return 0;
}

static int make_session(struct end *end, nghttp2_session_callbacks *by,
                        nghttp2_option *with)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(by, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(by, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback2(by, on_bad_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(by, on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(by, on_bad_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(by, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(by, on_close);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(by, on_unsent);
    nghttp2_option_set_no_auto_window_update(with, 1);
    nghttp2_option_set_no_closed_streams(with, 1);
    nghttp2_option_set_max_reserved_remote_streams(with, 0);
    nghttp2_option_set_max_send_header_block_length(with, (size_t)2 * HEAD_NEW_MAX);
    return is_client(end) ? nghttp2_session_server_new2(&end->session, by, end, with)
                          : nghttp2_session_client_new2(&end->session, by, end, with);
}

static bool open_end(struct http2 *h, struct end *end, struct side *side)
{
    nghttp2_session_callbacks *by = NULL;
    nghttp2_option *with = NULL;
    bool good =
        nghttp2_session_callbacks_new(&by) == 0 && nghttp2_option_new(&with) == 0;

    *end = (struct end){ .of = h, .side = side, .patience = PATIENCE_MOST };
    end->patient_ns = now_ns();
    end->left = is_client(end) ? MAGIC : 0;
    good = good && make_session(end, by, with) == 0;
    nghttp2_session_callbacks_del(by);
    nghttp2_option_del(with);
    if (!good)
        return false;
    tell_settings(end, STREAMS_MOST);
    return nghttp2_session_set_local_window_size(end->session, NGHTTP2_FLAG_NONE, 0,
                                                 is_client(end) ? CLIENT_WINDOW_ALL
                                                                : HOST_WINDOW_ALL) == 0;
}

struct http2 *http2_new(struct exchange *e)
{
    struct http2 *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->e = e;
    h->most = UINT32_MAX;
    if (open_end(h, &h->client, &e->client) &&
        (!e->server.ready || open_end(h, &h->host, &e->server)))
        return h;
    http2_free(h);
    return NULL;
}

void http2_refuse(struct http2 *h, const struct refusal *why)
{
    h->why = *why;
    exchange_blame(h->e, why->verdict);
}

/* Who had requests there hears that they failed, and that no more are taken. */
static void lose_host(struct http2 *h)
{
    struct stream *next = NULL;

    if (h->host_gone)
        return;
    h->host_gone = true;
    for (struct stream *s = h->streams; s; s = next) {
        next = s->next;
        if (s->up)
            stream_gone(&h->host, s->up, NGHTTP2_INTERNAL_ERROR);
    }
    if (!h->leaving)
        (void)nghttp2_submit_goaway(
            h->client.session, NGHTTP2_FLAG_NONE,
            nghttp2_session_get_last_proc_stream_id(h->client.session),
            NGHTTP2_NO_ERROR, NULL, 0);
    h->leaving = true;
}

static void fail(struct end *end, uint32_t error)
{
    exchange_blame(end->of->e, fault_of(end));
    if (is_client(end)) /* what it says from now on is not heard */
        (void)nghttp2_session_terminate_session(end->session, error);
    else
        lose_host(end->of);
}

static bool is_dear(const struct end *end, uint8_t type)
{
    return (type == NGHTTP2_HEADERS && is_client(end)) || type == NGHTTP2_RST_STREAM ||
           type == NGHTTP2_CONTINUATION;
}

/* A frame costs patience unless it brings a part of a body. */
static bool pay(struct end *end)
{
    uint64_t now = now_ns(), one = UINT64_C(1000000000) / PATIENCE_A_SECOND;
    size_t len = end->left;
    uint8_t type = end->header[3];

    if (type == NGHTTP2_DATA && len)
        return true;
    end->patience += (long)((now - end->patient_ns) / one);
    end->patient_ns += (now - end->patient_ns) / one * one;
    if (end->patience > PATIENCE_MOST)
        end->patience = PATIENCE_MOST;
    end->patience -= is_dear(end, type) ? PATIENCE_REQUEST : 1;
    return end->patience >= 0;
}

/* How many of LEN bytes belong to the frame that is being read; so its head, or its
 * body, is never read with another one's. */
static size_t next_piece(struct end *end, const uint8_t *data, size_t len)
{
    size_t n = end->left ? end->left : FRAME_HEADER - end->header_len;

    n = n < len ? n : len;
    if (end->left) {
        end->left -= n;
        return n;
    }
    memcpy(end->header + end->header_len, data, n);
    end->header_len += n;
    if (end->header_len < FRAME_HEADER)
        return n;
    end->header_len = 0;
    end->left =
        (size_t)end->header[0] << 16 | (size_t)end->header[1] << 8 | end->header[2];
    return pay(end) || weaken("secret_patience") ? n : 0;
}

static bool is_full(const struct end *end)
{
    return end->session && !end->of->host_gone &&
           (nghttp2_session_get_outbound_queue_size(end->session) >= QUEUE_MOST ||
            !side_has_room(end->side));
}

/* Reads what has come, as long as what it leads to can go out. */
static bool hear(struct end *end)
{
    size_t at = 0;

    while (end->session && at < end->side->in_len && !is_full(&end->of->client) &&
           !is_full(&end->of->host)) {
        size_t n = next_piece(end, end->side->in + at, end->side->in_len - at);

        if (n == 0) {
            fail(end, NGHTTP2_ENHANCE_YOUR_CALM);
            at = end->side->in_len;
        } else if (nghttp2_session_mem_recv(end->session, end->side->in + at, n) < 0) {
            fail(end, NGHTTP2_PROTOCOL_ERROR);
            at = end->side->in_len;
        } else {
            at += n;
        }
    }
    if (at)
        side_eat(end->side, at);
    return at > 0;
}

static bool say(struct end *end)
{
    bool moved = false;

    while (end->session && side_has_room(end->side)) {
        const uint8_t *data = NULL;
        ssize_t n = nghttp2_session_mem_send(end->session, &data);

        if (n < 0)
            end->of->e->over = true;
        if (n <= 0)
            break;
        side_put(end->side, data, (size_t)n);
        moved = true;
    }
    return moved;
}

static bool is_done(const struct end *end)
{
    return !nghttp2_session_want_read(end->session) &&
           !nghttp2_session_want_write(end->session);
}

static bool is_over(const struct end *end)
{
    return end->side->failed ||
           (!end->side->in_len && (end->side->ended || is_done(end)));
}

bool http2_move(struct http2 *h)
{
    bool moved = false;

    if (h->e->closing || h->e->over)
        return false;
    moved = hear(&h->client);
    if (!h->host_gone) {
        moved = say(&h->host) || moved;
        moved = hear(&h->host) || moved;
    }
    if (h->host.session && is_over(&h->host))
        lose_host(h);
    moved = say(&h->client) || moved;
    if (is_done(&h->client))
        h->e->closing = true;
    return moved;
}

void http2_free(struct http2 *h)
{
    if (!h)
        return;
    nghttp2_session_del(h->client.session);
    nghttp2_session_del(h->host.session);
    told_head_clear(&h->client.coming);
    told_head_clear(&h->host.coming);
    while (h->streams)
        stream_free(h, h->streams);
    free(h);
}
