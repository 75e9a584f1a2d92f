/* SPDX-License-Identifier: Apache-2.0 */
#include "http/ws_frame.h"

#include <stdint.h>

size_t ws_frame_head(unsigned char out[10], unsigned opcode, size_t len)
{
    size_t count = len <= WS_SHORT_MAX ? 0 : len <= 0xffff ? 2 : 8;

    out[0] = (unsigned char)(WS_FIN | opcode);
    out[1] = (unsigned char)(count == 0 ? len : count == 2 ? 126 : 127);
    for (size_t i = 0; i < count; i++)
        out[2 + i] = (unsigned char)((uint64_t)len >> (8 * (count - 1 - i)));
    return 2 + count;
}
