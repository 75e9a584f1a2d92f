/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/text.h"

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void text_base64(struct str *out, const void *data, size_t len)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t bits = (uint32_t)p[i] << 16;
        char quad[4] = { 0, 0, '=', '=' };

        if (n > 1)
            bits |= (uint32_t)p[i + 1] << 8;
        if (n > 2)
            bits |= p[i + 2];
        for (size_t k = 0; k <= n; k++)
            quad[k] = alphabet[bits >> (18 - 6 * k) & 63];
        str_add(out, quad, 4);
    }
    if (len == 0)
        str_add(out, "", 0);
}

static int digit(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;

    return at ? (int)(at - alphabet) : -1;
}

/* Decodes four characters that stand for N bytes; bits beyond them must be 0. */
static int decode_quad(const char *quad, size_t n, char *out)
{
    uint32_t bits = 0;

    for (size_t k = 0; k < 4; k++) {
        int d = k <= n ? digit(quad[k]) : 0;

        if (d < 0)
            return -1;
        bits = bits << 6 | (uint32_t)d;
    }
    for (size_t k = 0; k < n; k++)
        out[k] = (char)(bits >> (16 - 8 * k) & 0xFF);
    return bits & (0xFFFFFFu >> (8 * n)) ? -1 : 0;
}

int text_unbase64(const char *text, size_t len, struct blob *out)
{
    auto_free char *data = NULL;
    size_t pad = 0, got = 0;

    if (len % 4 != 0)
        return -1;
    if (len > 0)
        pad = text[len - 1] != '=' ? 0 : text[len - 2] != '=' ? 1 : 2;
    data = malloc(len / 4 * 3 + 1);
    if (!data)
        return -1;
    for (size_t i = 0; i < len; i += 4) {
        size_t n = i + 4 == len ? 3 - pad : 3;

        if (decode_quad(text + i, n, data + got) < 0)
            return -1;
        got += n;
    }
    data[got] = '\0';
    blob_done(out);
    out->data = ptr_take(&data);
    out->len = got;
    return 0;
}
