/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha1.h"

#include <stdint.h>
#include <string.h>

static uint32_t turn(uint32_t x, unsigned by)
{
    return x << by | x >> (32 - by);
}

/* The function and the constant of round I. */
static uint32_t mix(unsigned i, uint32_t b, uint32_t c, uint32_t d)
{
    if (i < 20)
        return ((b & c) | (~b & d)) + 0x5a827999u;
    if (i < 40)
        return (b ^ c ^ d) + 0x6ed9eba1u;
    if (i < 60)
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcu;
    return (b ^ c ^ d) + 0xca62c1d6u;
}

static void add_block(uint32_t h[5], const unsigned char *block)
{
    uint32_t w[80];
    uint32_t v[5];

    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 80; i++)
        w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, h, sizeof(v));
    for (unsigned i = 0; i < 80; i++) {
        uint32_t next = turn(v[0], 5) + mix(i, v[1], v[2], v[3]) + v[4] + w[i];

        v[4] = v[3];
        v[3] = v[2];
        v[2] = turn(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (unsigned i = 0; i < 5; i++)
        h[i] += v[i];
}

void sha1(const void *data, size_t len, unsigned char out[20])
{
    uint32_t h[5] = { 0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u };
    const unsigned char *at = data;
    unsigned char last[128] = { 0 };
    size_t whole = len / 64, rest = len % 64;
    size_t end = rest < 56 ? 64 : 128;

    for (size_t i = 0; i < whole; i++)
        add_block(h, at + 64 * i);
    memcpy(last, at + 64 * whole, rest);
    last[rest] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        last[end - 1 - i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
    for (size_t i = 0; i < end; i += 64)
        add_block(h, last + i);
    for (unsigned i = 0; i < 20; i++)
        out[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}
