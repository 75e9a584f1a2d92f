/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SECRETS_HTTP2_H
#define VIAL_SECRETS_HTTP2_H

/* clang-format off */
/*
 * A connection whose both ends speak HTTP/2: a session of nghttp2 with each. A stream of
 * the client's becomes one of the host's once its head was judged; bodies go through a
 * flow each, and whoever sends one may send more when the other end has taken it.
 *
 * Nothing here grows with what an end wishes:
 *
 *   streams    STREAMS_MOST at once, or as few as the host takes; more are refused
 *   heads      32 KiB of one; none is read while QUEUE_MOST frames wait to be sent
 *   bodies     the windows of their senders
 *   frames     that bring no body cost patience, which comes back by time, by requests
 *              that end well, and with each piece of a body for who takes it
 */
/* clang-format on */

#include <nghttp2/nghttp2.h>

#include "secrets/secrets.h"

#define STREAMS_MOST      100 /* what clients take for granted, until they are told */
#define QUEUE_MOST        8
#define CLIENT_WINDOW     (64u << 10) /* of a stream; bytes that nobody has taken yet */
#define CLIENT_WINDOW_ALL (256u << 10) /* and of all */
#define HOST_WINDOW       (256u << 10)
#define HOST_WINDOW_ALL   (512u << 10)
#define PATIENCE_MOST     8000
#define PATIENCE_A_SECOND 400
#define PATIENCE_REQUEST  20 /* of a request, a reset, a continuation */
#define FRAME_HEADER      9
#define UNREAD_MOST       (1u << 20)

/* A body on its way from one end to the other. */
struct flow {
    uint8_t *data;
    size_t at, len, cap;
    size_t owed; /* bytes of the sender's window that it has not got back */
    bool ended;  /* no more comes */
    bool waits;  /* the receiving session asks no more until it is told */
};

struct stream {
    int32_t id, up; /* with the client, and with the host; 0: not, or no longer */
    struct flow ask, answer;
    struct body asked, answered;
    struct scrub scrub;
    struct str trailers;
    bool to_head;
    bool has_answer; /* its head has gone to the client */
    unsigned interim;
    size_t unread; /* of a body that nobody wants any more */
    struct stream *next;
};

struct end {
    struct http2 *of;
    struct side *side;
    nghttp2_session *session; /* NULL: it cannot be asked */
    struct told_head coming;  /* of one stream at a time */
    uint8_t header[FRAME_HEADER];
    size_t header_len, left; /* of the frame that is being read */
    long patience;
    uint64_t patient_ns; /* when it was counted last */
};

struct http2 {
    struct exchange *e;
    struct end client, host;
    struct stream *streams;
    size_t count;
    struct refusal why; /* the host cannot be asked */
    uint32_t most;      /* streams that it takes */
    bool leaving;       /* it takes no more requests */
    bool host_gone;
};

/* http2_stream.c: what callbacks come to. */
struct stream *stream_find(const struct http2 *h, const struct end *by, int32_t id);
void stream_ask(struct http2 *h, int32_t id, bool ends);
void stream_answer(struct http2 *h, struct stream *s, bool ends);
void stream_data(struct end *from, int32_t id, const uint8_t *data, size_t len);
void stream_ends(struct end *from, int32_t id); /* its body does */
void stream_gone(struct end *from, int32_t id, uint32_t error);
void stream_trailed(struct http2 *h, int32_t id); /* a request has trailers */
ssize_t stream_give(struct end *to, int32_t id, uint8_t *room, size_t len,
                    uint32_t *flags);
void stream_free(struct http2 *h, struct stream *s);

#endif
