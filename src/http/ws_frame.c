/* SPDX-License-Identifier: Apache-2.0 */
#include "http/ws_frame.h"

#include <stdint.h>

#include "base/auto.h"
#include "base/sha1.h"
#include "base/text.h"

#define MAGIC "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

size_t ws_frame_head(unsigned char out[10], unsigned opcode, size_t len)
{
    size_t count = len <= WS_SHORT_MAX ? 0 : len <= 0xffff ? 2 : 8;

    out[0] = (unsigned char)(WS_FIN | opcode);
    out[1] = (unsigned char)(count == 0 ? len : count == 2 ? 126 : 127);
    for (size_t i = 0; i < count; i++)
        out[2 + i] = (unsigned char)((uint64_t)len >> (8 * (count - 1 - i)));
    return 2 + count;
}

void ws_accept(struct str *out, const char *key)
{
    auto_str struct str text = { 0 };
    unsigned char hash[20];

    str_printf(&text, "%s%s", key, MAGIC);
    out->failed = out->failed || !str_ok(&text);
    if (out->failed)
        return;
    sha1(text.data, text.len, hash);
    text_base64(out, hash, sizeof(hash));
}
