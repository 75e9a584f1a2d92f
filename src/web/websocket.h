/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WEB_WEBSOCKET_H
#define VIAL_WEB_WEBSOCKET_H

/*
 * A WebSocket (RFC 6455) of a request whose handler wants one. Messages are whole, and
 * bounded; no extension is offered. One thread reads; any may send. What has come of
 * them counts for the caller's share of bodies, until the next is read; one that is
 * more than that ends it all, with 1013.
 *
 *   web_socket_open -> [web_socket_ping] -> { web_socket_read | web_socket_send }*
 *   -> web_socket_close
 */

#include "base/json.h"
#include "web/web.h"

struct web_socket;

/* NULL: the request asked for none, or the client has gone; it was answered then. MOST:
 * bytes of a message. */
struct web_socket *web_socket_open(struct web_request *req, size_t most);

/* From now on whoever reads pings the client each EVERY_MS as well; one of which
 * nothing comes for ANSWER_MS after that is gone. */
void web_socket_ping(struct web_socket *s, int every_ms, int answer_ms);

enum web_socket_said { WEB_SOCKET_NOTHING, WEB_SOCKET_MESSAGE, WEB_SOCKET_GONE };

/* The next message, which may be text or not, borrowed until the next call; NOTHING
 * after so long. Pings are answered by the way. */
enum web_socket_said web_socket_read(struct web_socket *s, int timeout_ms,
                                     const char **data, size_t *len);

/* Sends a text, which has to be UTF-8. -1: the client is gone, or takes nothing. */
int web_socket_send(struct web_socket *s, const char *text, size_t len);
/* The same for bytes of any kind. */
int web_socket_send_bytes(struct web_socket *s, const char *data, size_t len);
/* The same of a value and its large parts, which are written while they are sent; as
 * bytes behind FIRST, or as a text if that is negative. */
int web_socket_send_json(struct web_socket *s, int first, const json_t *value,
                         const struct json_larges *larges);
/* Says why, waits a little for the client to say the same, and gives it back. */
void web_socket_close(struct web_socket *s, unsigned code, const char *reason);

/* websocket_frame.c: the pure part. */
enum frame_kind {
    FRAME_MORE,  /* not whole yet */
    FRAME_PART,  /* of a message, which goes on */
    FRAME_WHOLE, /* the end of a message */
    FRAME_PING,
    FRAME_PONG,
    FRAME_CLOSE,
    FRAME_BAD /* against the rules, or too long: CODE says which */
};

struct frame {
    enum frame_kind kind;
    bool first;   /* a message begins */
    size_t taken; /* bytes of the input that it was */
    char *data;   /* its content, within the input, unmasked */
    size_t len;
    unsigned code; /* of FRAME_BAD */
};

/* Looks at what a client has sent so far; a frame of more than MOST bytes is bad. */
struct frame ws_frame_read(char *bytes, size_t len, size_t most);

#endif
