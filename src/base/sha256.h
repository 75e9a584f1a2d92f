/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_SHA256_H
#define VIAL_BASE_SHA256_H

/* SHA-256 (FIPS 180-4), piece by piece: init -> add* -> text. */

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t total; /* bytes */
    unsigned char block[64];
};

void sha256_init(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *data, size_t len);
/* 64 hex digits and a NUL; H is used up. */
void sha256_text(struct sha256 *h, char out[65]);

#endif
