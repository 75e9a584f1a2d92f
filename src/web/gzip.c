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

struct gunzip {
    struct web_request *req;
    z_stream z;
    int rc;            /* of the last piece; Z_STREAM_END: a member is whole */
    bool full;         /* there may be more of the last piece */
    struct str packed; /* what the next pieces are made of */
    uint64_t total;    /* bytes that were given */
};

/* The next input, as zlib counts in unsigned. */
static void feed(z_stream *z, const char **data, size_t *len)
{
    size_t n = *len < UINT_MAX ? *len : UINT_MAX;

    z->next_in = (Bytef *)(uintptr_t)*data;
    z->avail_in = (unsigned)n;
    *data += n;
    *len -= n;
}

struct gunzip *gunzip_open(struct web_request *req)
{
    struct gunzip *g = calloc(1, sizeof(*g));

    if (g && inflateInit2(&g->z, FORM) == Z_OK) {
        g->req = req;
        return g;
    }
    free(g);
    return NULL;
}

static int refuse(struct web_refusal *no, unsigned status, const char *why)
{
    *no = (struct web_refusal){ status, why };
    return -1;
}

/* 1 with input for zlib, 0 at the end, -1. */
static int refill(struct gunzip *g, struct web_refusal *no)
{
    const char *data;
    size_t len;
    int rc;

    g->packed.len = 0;
    rc = web_read(g->req, &g->packed, no);
    if (rc < 0)
        return -1;
    if (!str_ok(&g->packed))
        return refuse(no, 503, "there is no room for the body now");
    data = g->packed.data;
    len = g->packed.len; /* it comes in pieces that zlib can count */
    feed(&g->z, &data, &len);
    return rc;
}

/* Members follow one another; what is behind the last one is none. */
static int unpack(struct gunzip *g, struct str *out, struct web_refusal *no)
{
    unsigned char piece[PIECE];

    if (g->rc == Z_STREAM_END && inflateReset(&g->z) != Z_OK)
        return refuse(no, 503, "there is no room for the body now");
    g->z.next_out = piece;
    g->z.avail_out = sizeof(piece);
    g->rc = inflate(&g->z, Z_NO_FLUSH);
    if (g->rc == Z_BUF_ERROR) /* it needs what has not come yet */
        g->rc = Z_OK;
    if (g->rc != Z_OK && g->rc != Z_STREAM_END)
        return refuse(no, 400, "the body is not gzip, or cut short");
    g->total += sizeof(piece) - g->z.avail_out;
    if (g->total > g->req->web->options.body_bytes)
        return refuse(no, 413, "the body is too large once it is unpacked");
    str_add(out, piece, sizeof(piece) - g->z.avail_out);
    g->full = g->z.avail_out == 0 && g->rc == Z_OK;
    return str_ok(out) ? 0 : refuse(no, 503, "there is no room for the body now");
}

int gunzip_read(struct gunzip *g, struct str *out, struct web_refusal *no)
{
    size_t before = out->len;

    *no = (struct web_refusal){ 0 };
    while (out->len == before) {
        int rc = g->z.avail_in || g->full ? 1 : refill(g, no);

        if (rc < 0)
            return -1;
        if (rc == 0)
            return g->rc == Z_STREAM_END
                       ? 0
                       : refuse(no, 400, "the body is not gzip, or cut short");
        if (unpack(g, out, no) < 0)
            return -1;
    }
    return 1;
}

void gunzip_close(struct gunzip *g)
{
    if (!g)
        return;
    (void)inflateEnd(&g->z);
    str_done(&g->packed);
    free(g);
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
