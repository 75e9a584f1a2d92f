/* SPDX-License-Identifier: Apache-2.0 */
/* Built without nghttp2: HTTP/2 is never offered, so none of this is called. */
#include "secrets/secrets.h"

const bool http2_there = false;

struct http2 *http2_new(struct exchange *e)
{
    (void)e;
    return NULL;
}

bool http2_move(struct http2 *h)
{
    (void)h;
    return false;
}

void http2_refuse(struct http2 *h, const struct refusal *why)
{
    (void)h;
    (void)why;
}

void http2_free(struct http2 *h)
{
    (void)h;
}
