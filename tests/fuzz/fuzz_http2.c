/* SPDX-License-Identifier: Apache-2.0 */
/* What a program and a secret's host say in HTTP/2, in turns: a byte says who, and how
 * much of what follows. Heads that go on are those that were judged. */
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <strings.h>

#include "two_ends.h"

#define FRAME 9

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_field(const nghttp2_nv *f, bool to_client)
{
    MUST(!memchr(f->value, '\r', f->valuelen) && !memchr(f->value, '\n', f->valuelen));
    if (to_client)
        MUST(!memmem(f->value, f->valuelen, VALUE, strlen(VALUE)));
    else if (f->namelen == 10 && memcmp(f->name, ":authority", 10) == 0)
        MUST((f->valuelen == 8 && strncasecmp((const char *)f->value, HOST, 8) == 0) ||
             (f->valuelen == 12 &&
              strncasecmp((const char *)f->value, HOST ":443", 12) == 0));
    MUST(f->namelen != 17 || memcmp(f->name, "transfer-encoding", 17) != 0);
}

static void check_head(nghttp2_hd_inflater *by, uint8_t *at, size_t len, bool last,
                       bool to_client)
{
    int flags = 0;

    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv field = { 0 };
        ssize_t n = nghttp2_hd_inflate_hd2(by, &field, &flags, at, len, last);

        MUST(n >= 0);
        at += n;
        len -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            check_field(&field, to_client);
        else if (!len)
            break;
    }
    if (last)
        (void)nghttp2_hd_inflate_end_headers(by);
}

/* Each frame that goes out is whole. */
static void check_out(struct side *s, nghttp2_hd_inflater *by, bool to_client)
{
    uint8_t *at = s->out ? s->out + s->out_at : NULL;
    size_t left = s->out_len;

    if (!to_client && left >= 24 && memcmp(at, "PRI * HTTP/2.0", 14) == 0) {
        at += 24;
        left -= 24;
    }
    while (left >= FRAME) {
        size_t size = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];

        MUST(size + FRAME <= left);
        if (at[3] == NGHTTP2_HEADERS || at[3] == NGHTTP2_CONTINUATION)
            check_head(by, at + FRAME, size, at[4] & NGHTTP2_FLAG_END_HEADERS,
                       to_client);
        if (at[3] == NGHTTP2_DATA && to_client)
            MUST(!memmem(at + FRAME, size, VALUE, strlen(VALUE)));
        at += size + FRAME;
        left -= size + FRAME;
    }
    MUST(left == 0);
    two_ends_taken(s);
}

static void play(struct two_ends *t, const uint8_t *data, size_t len,
                 nghttp2_hd_inflater *of_client, nghttp2_hd_inflater *of_host)
{
    while (len && !t->e.over && !t->e.closing) {
        struct side *s = data[0] & 1 ? &t->e.server : &t->e.client;
        size_t n = data[0] >> 1;

        n = n < len - 1 ? n : len - 1;
        (void)two_ends_put(s, data + 1, n);
        data += n + 1;
        len -= n + 1;
        for (int i = 0; i < 8 && http2_move(t->e.two); i++) {
            check_out(&t->e.client, of_client, true);
            check_out(&t->e.server, of_host, false);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const char settings[] = "\0\0\0\4\0\0\0\0\0";
    nghttp2_hd_inflater *of_client = NULL, *of_host = NULL;
    struct two_ends t;

    MUST(nghttp2_hd_inflate_new(&of_client) == 0 &&
         nghttp2_hd_inflate_new(&of_host) == 0);
    two_ends_open(&t);
    (void)two_ends_put(&t.e.client, magic, sizeof magic - 1);
    (void)two_ends_put(&t.e.server, settings, sizeof settings - 1);
    play(&t, data, len, of_client, of_host);
    two_ends_close(&t);
    nghttp2_hd_inflate_del(of_client);
    nghttp2_hd_inflate_del(of_host);
    return 0;
}
