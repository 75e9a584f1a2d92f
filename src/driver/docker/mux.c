/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/mux.h"

#include <string.h>

enum { STREAM_STDIN, STREAM_STDOUT, STREAM_STDERR, STREAM_ERROR, STREAM_END_ };

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Bytes taken, or -1. */
static ssize_t take_head(struct mux *m, const uint8_t *data, size_t len)
{
    size_t n = min(len, sizeof(m->head) - m->head_len);

    memcpy(m->head + m->head_len, data, n);
    m->head_len += n;
    if (m->head_len < sizeof(m->head))
        return (ssize_t)n;
    if (m->head[0] >= STREAM_END_ || m->head[1] || m->head[2] || m->head[3])
        return -1;
    m->left = (uint32_t)m->head[4] << 24 | (uint32_t)m->head[5] << 16 |
              (uint32_t)m->head[6] << 8 | m->head[7];
    if (m->left == 0)
        m->head_len = 0;
    return (ssize_t)n;
}

ssize_t mux_strip(struct mux *m, uint8_t *data, size_t len)
{
    size_t kept = 0;
    size_t at = 0;

    while (at < len) {
        size_t n = 0;

        if (m->left == 0) {
            ssize_t head = take_head(m, data + at, len - at);

            if (head < 0)
                return -1;
            at += (size_t)head;
            continue;
        }
        n = min(len - at, m->left);
        if (m->head[0] == STREAM_STDOUT) {
            memmove(data + kept, data + at, n);
            kept += n;
        }
        at += n;
        m->left -= (uint32_t)n;
        if (m->left == 0)
            m->head_len = 0;
    }
    return (ssize_t)kept;
}

static ssize_t strip(void *state, uint8_t *data, size_t len)
{
    return mux_strip(state, data, len);
}

const struct pump_code mux_code = { .strip = strip };
