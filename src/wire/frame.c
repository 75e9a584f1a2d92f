/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

static void put_u32(uint8_t *at, uint32_t v)
{
    at[0] = (uint8_t)v;
    at[1] = (uint8_t)(v >> 8);
    at[2] = (uint8_t)(v >> 16);
    at[3] = (uint8_t)(v >> 24);
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

void frame_write_header(uint8_t *buf, const struct frame *f)
{
    put_u32(buf, f->channel);
    buf[4] = f->type;
    buf[5] = f->stream;
    buf[6] = 0;
    buf[7] = 0;
    put_u32(buf + 8, f->len);
}

long frame_read(const uint8_t *buf, size_t len, uint32_t max, struct frame *f)
{
    if (len < WIRE_HEADER)
        return 0;
    *f = (struct frame){ .channel = get_u32(buf),
                         .type = buf[4],
                         .stream = buf[5],
                         .len = get_u32(buf + 8),
                         .payload = buf + WIRE_HEADER };
    if (f->type < WIRE_HELLO || f->type > WIRE_ROOT || f->stream > 2 || buf[6] ||
        buf[7] || f->len > max)
        return -1;
    return len - WIRE_HEADER < f->len ? 0 : (long)(WIRE_HEADER + f->len);
}
