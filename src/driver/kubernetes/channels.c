/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/channels.h"

#include <string.h>

#include "http/ws_frame.h"

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_control(uint8_t opcode)
{
    return opcode >= OP_CLOSE;
}

/* How many bytes the head has, once two of them are there. */
static size_t head_size(const uint8_t *head)
{
    unsigned wide = head[1] & 0x7fu;

    return wide == 126 ? 4 : wide == 127 ? 10 : 2;
}

static uint64_t read_length(const struct channels *c)
{
    uint64_t len = 0;

    if (c->head_want == 2)
        return c->head[1] & 0x7fu;
    for (size_t i = 2; i < c->head_want; i++)
        len = len << 8 | c->head[i];
    return len;
}

/* A server masks nothing, and speaks no extension; what controls is short and whole;
 * a message goes on until it ends. */
static bool is_valid(const struct channels *c, uint8_t opcode, uint64_t len)
{
    bool fin = (c->head[0] & WS_FIN) != 0;

    if ((c->head[0] & WS_RESERVED) || (c->head[1] & WS_MASKED) ||
        len > (UINT64_C(1) << 40))
        return false;
    if (is_control(opcode))
        return fin && len <= WS_SHORT_MAX && opcode <= OP_PONG;
    if (opcode == OP_MORE)
        return c->opcode != 0;
    return (opcode == OP_TEXT || opcode == OP_BINARY) && c->opcode == 0;
}

static void begin_control(struct channels *c, uint8_t opcode)
{
    c->control = opcode;
    if (opcode == OP_PING)
        c->ping_len = 0;
}

static void end_frame(struct channels *c)
{
    c->head_len = 0;
    if (c->control) {
        c->ponged = c->ponged || c->control == OP_PING;
        c->closed = c->closed || c->control == OP_CLOSE;
        c->control = 0;
    } else if (c->whole) {
        c->opcode = 0;
        c->named = false;
    }
}

static bool begin_frame(struct channels *c)
{
    uint8_t opcode = c->head[0] & 0x0fu;

    c->left = read_length(c);
    if (!is_valid(c, opcode, c->left))
        return false;
    if (is_control(opcode)) {
        begin_control(c, opcode);
    } else {
        c->whole = (c->head[0] & WS_FIN) != 0;
        c->opcode = opcode ? opcode : c->opcode;
    }
    if (c->left == 0)
        end_frame(c);
    return true;
}

/* Bytes taken, or -1. */
static ssize_t take_head(struct channels *c, const uint8_t *data, size_t len)
{
    size_t want = c->head_len < 2 ? 2 : c->head_want;
    size_t n = min(len, want - c->head_len);

    memcpy(c->head + c->head_len, data, n);
    c->head_len += n;
    if (c->head_len < 2)
        return (ssize_t)n;
    c->head_want = head_size(c->head);
    if (c->head_len == c->head_want && !begin_frame(c))
        return -1;
    return (ssize_t)n;
}

/* LEN bytes of the present frame; how many of them are the stream's, at OUT. */
static size_t take_content(struct channels *c, const uint8_t *data, size_t len,
                           uint8_t *out)
{
    if (c->control) {
        size_t n = c->control == OP_PING ? min(len, sizeof(c->ping) - c->ping_len) : 0;

        memcpy(c->ping + c->ping_len, data, n);
        c->ping_len += n;
        return 0;
    }
    if (!c->named) {
        c->named = true;
        c->channel = *data++;
        len--;
    }
    if (c->channel != CHANNEL_STDOUT)
        return 0; /* the pod's status tells more than the stream's end */
    memmove(out, data, len);
    return len;
}

ssize_t channels_take(struct channels *c, uint8_t *data, size_t len)
{
    size_t kept = 0;
    size_t at = 0;

    while (at < len && !c->closed) {
        size_t n;

        if (c->left == 0) {
            ssize_t head = take_head(c, data + at, len - at);

            if (head < 0)
                return -1;
            at += (size_t)head;
            continue;
        }
        n = min(len - at, c->left);
        kept += take_content(c, data + at, n, data + kept);
        at += n;
        c->left -= n;
        if (c->left == 0)
            end_frame(c);
    }
    return (ssize_t)kept;
}

size_t channels_head(uint8_t out[CHANNELS_HEAD], uint8_t opcode, size_t len,
                     const uint8_t mask[4])
{
    size_t n = ws_frame_head(out, opcode, len);

    out[1] |= WS_MASKED;
    memcpy(out + n, mask, 4);
    return n + 4;
}

void channels_mask(uint8_t *data, size_t len, size_t offset, const uint8_t mask[4])
{
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(data[i] ^ mask[(offset + i) % 4]);
}
