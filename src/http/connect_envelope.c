/* SPDX-License-Identifier: Apache-2.0 */
#include "http/connect_envelope.h"

struct connect_head connect_head_read(const void *data)
{
    const uint8_t *at = data;

    return (struct connect_head){ .flags = at[0],
                                  .len = (size_t)at[1] << 24 | (size_t)at[2] << 16 |
                                         (size_t)at[3] << 8 | at[4] };
}

void connect_put(struct str *out, unsigned flags, const void *message, size_t len)
{
    const uint8_t head[CONNECT_HEAD] = { (uint8_t)flags, (uint8_t)(len >> 24),
                                         (uint8_t)(len >> 16), (uint8_t)(len >> 8),
                                         (uint8_t)len };

    out->failed = out->failed || len > UINT32_MAX;
    str_add(out, head, sizeof(head));
    str_add(out, message, len);
}
