/* SPDX-License-Identifier: Apache-2.0 */
/* What a client sends over a WebSocket, frame by frame. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "web/websocket.h"

#define MOST 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *bytes = malloc(len + 1);
    size_t at = 0;

    if (!bytes)
        return 0;
    memcpy(bytes, data, len);
    while (at < len) {
        struct frame f = ws_frame_read(bytes + at, len - at, MOST);

        if (f.kind == FRAME_MORE || f.kind == FRAME_BAD)
            break;
        MUST(f.taken >= 6 && f.taken <= len - at && f.len <= MOST);
        MUST(f.data + f.len == bytes + at + f.taken);
        at += f.taken;
    }
    free(bytes);
    return 0;
}
