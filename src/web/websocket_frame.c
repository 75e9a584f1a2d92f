/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "http/ws_frame.h"
#include "web/websocket.h"

static struct frame bad(unsigned code)
{
    return (struct frame){ .kind = FRAME_BAD, .code = code };
}

static enum frame_kind kind_of(unsigned opcode, bool fin)
{
    switch (opcode) {
    case OP_MORE:
    case OP_TEXT:
    case OP_BINARY:
        return fin ? FRAME_WHOLE : FRAME_PART;
    case OP_CLOSE:
        return FRAME_CLOSE;
    case OP_PING:
        return FRAME_PING;
    case OP_PONG:
        return FRAME_PONG;
    default:
        return FRAME_BAD;
    }
}

/* The length, and in *AT where the mask begins; false: more has to come. */
static bool read_length(const unsigned char *bytes, size_t have, size_t *at,
                        uint64_t *len)
{
    unsigned wide = bytes[1] & 0x7fu;
    size_t count = wide == 126 ? 2 : wide == 127 ? 8 : 0;

    *at = 2 + count;
    *len = count ? 0 : wide;
    if (have < *at + 4)
        return false;
    for (size_t i = 0; i < count; i++)
        *len = *len << 8 | bytes[2 + i];
    return true;
}

struct frame ws_frame_read(char *bytes, size_t len, size_t most)
{
    const unsigned char *head = (const unsigned char *)bytes;
    struct frame f = { .kind = FRAME_MORE };
    unsigned opcode;
    uint64_t size = 0;
    size_t at = 0;

    if (len < 2)
        return f;
    opcode = head[0] & 0x0fu;
    f.first = opcode == OP_TEXT || opcode == OP_BINARY;
    /* A client masks, and speaks no extension; what controls is short and whole. */
    if ((head[0] & WS_RESERVED) || !(head[1] & WS_MASKED) ||
        kind_of(opcode, true) == FRAME_BAD ||
        (opcode >= OP_CLOSE &&
         (!(head[0] & WS_FIN) || (head[1] & 0x7fu) > WS_SHORT_MAX)))
        return bad(1002);
    if (!read_length(head, len, &at, &size))
        return f;
    if (size > most)
        return bad(1009);
    if (len - at - 4 < size)
        return f;
    f.data = bytes + at + 4;
    f.len = (size_t)size;
    f.taken = at + 4 + f.len;
    f.kind = kind_of(opcode, (head[0] & WS_FIN) != 0);
    for (size_t i = 0; i < f.len; i++)
        f.data[i] = (char)(f.data[i] ^ bytes[at + i % 4]);
    return f;
}
