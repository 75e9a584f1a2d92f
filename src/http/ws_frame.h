/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_HTTP_WS_FRAME_H
#define VIAL_HTTP_WS_FRAME_H

/* How a WebSocket and each of its frames begin (RFC 6455, 1.3 and 5.2), for both sides.
 */

#include "base/str.h"

#define WS_FIN       0x80u
#define WS_RESERVED  0x70u
#define WS_MASKED    0x80u
#define WS_SHORT_MAX 125u /* of what controls, and of a length in one byte */

enum {
    OP_MORE = 0,
    OP_TEXT = 1,
    OP_BINARY = 2,
    OP_CLOSE = 8,
    OP_PING = 9,
    OP_PONG = 10
};

/* A server's head of a frame with LEN bytes; its own length. */
size_t ws_frame_head(unsigned char out[10], unsigned opcode, size_t len);

/* What a server says in Sec-WebSocket-Accept to who sent KEY. OUT tells if memory
 * ended. */
void ws_accept(struct str *out, const char *key);

#endif
