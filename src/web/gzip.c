/* SPDX-License-Identifier: Apache-2.0 */
#include "web/gzip.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "web/server.h"

#define FORM   (MAX_WBITS + 16) /* zlib's word for gzip, and nothing else */
#define MEMORY 8                /* zlib's usual amount */
#define PIECE  ((size_t)64 << 10)

/* What a body unpacks to, so far. */
struct unpacking {
    struct web_request *req;
    struct body whole;
    unsigned status;
    const char *why;
};

static bool give_up(struct unpacking *u, unsigned status, const char *why)
{
    u->status = status;
    u->why = why;
    return false;
}

static bool take(struct unpacking *u, const void *data, size_t len)
{
    if (u->whole.len + len > u->req->web->options.body_bytes)
        return give_up(u, 413, "the body is too large once it is unpacked");
    if (!request_charge(u->req, len) || body_add(&u->whole, data, len) < 0)
        return give_up(u, 503, "there is no room for the body now");
    return true;
}

/* The next input, as zlib counts in unsigned. */
static void feed(z_stream *z, const char **data, size_t *len)
{
    size_t n = *len < UINT_MAX ? *len : UINT_MAX;

    z->next_in = (Bytef *)(uintptr_t)*data;
    z->avail_in = (unsigned)n;
    *data += n;
    *len -= n;
}

/* Members follow one another; what is behind the last one is none. */
static bool unpack(struct unpacking *u, z_stream *z, const char *data, size_t len)
{
    unsigned char piece[PIECE];
    int rc = Z_OK;

    while (rc == Z_OK || z->avail_in || len) {
        if (z->avail_in == 0 && len)
            feed(z, &data, &len);
        if (rc == Z_STREAM_END && inflateReset(z) != Z_OK)
            return give_up(u, 503, "there is no room for the body now");
        z->next_out = piece;
        z->avail_out = sizeof(piece);
        rc = inflate(z, Z_NO_FLUSH);
        if (rc != Z_OK && rc != Z_STREAM_END)
            return give_up(u, 400, "the body is not gzip, or cut short");
        if (!take(u, piece, sizeof(piece) - z->avail_out))
            return false;
    }
    return true;
}

unsigned gzip_unpack_body(struct web_request *req, const char **why)
{
    struct unpacking u = { .req = req, .whole = { .fd = -1 } };
    z_stream z = { 0 };
    size_t len;
    const char *data = web_body(req, &len);

    if (inflateInit2(&z, FORM) != Z_OK ||
        (unpack(&u, &z, data, len) && body_end(&u.whole) < 0))
        (void)give_up(&u, 503, "there is no room for the body now");
    (void)inflateEnd(&z);
    *why = u.why;
    if (u.status) {
        body_done(&u.whole);
        return u.status;
    }
    body_done(&req->body);
    req->body = u.whole;
    return 0;
}

struct gzip {
    z_stream z;
};

/* The fastest level: who asks for it has a slow line, and does not want to wait. */
struct gzip *gzip_open(void)
{
    struct gzip *g = calloc(1, sizeof(*g));

    if (g && deflateInit2(&g->z, Z_BEST_SPEED, Z_DEFLATED, FORM, MEMORY,
                          Z_DEFAULT_STRATEGY) == Z_OK)
        return g;
    free(g);
    return NULL;
}

int gzip_add(struct gzip *g, const void *data, size_t len, bool last, struct str *out)
{
    const char *at = data;
    unsigned char piece[PIECE];

    do {
        feed(&g->z, &at, &len);
        do {
            g->z.next_out = piece;
            g->z.avail_out = sizeof(piece);
            (void)deflate(&g->z, last && len == 0 ? Z_FINISH : Z_NO_FLUSH);
            str_add(out, piece, sizeof(piece) - g->z.avail_out);
        } while (g->z.avail_out == 0);
    } while (len);
    return out->failed ? -1 : 0;
}

void gzip_close(struct gzip *g)
{
    if (!g)
        return;
    (void)deflateEnd(&g->z);
    free(g);
}
