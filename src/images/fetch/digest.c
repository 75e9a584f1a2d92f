/* SPDX-License-Identifier: Apache-2.0 */
#include "images/fetch/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"

#define SUM   32
#define PIECE (128u << 10)

/* Without memory for a hash nothing can be told to be what it should be. */
void digest_begin(struct digest *d)
{
    digest_done(d);
    if (gnutls_hash_init(&d->hash, GNUTLS_DIG_SHA256) < 0)
        abort();
}

void digest_add(struct digest *d, const void *data, size_t len)
{
    if (gnutls_hash(d->hash, data, len) < 0)
        abort();
}

void digest_end(struct digest *d, char out[STORE_DIGEST])
{
    unsigned char sum[SUM];

    gnutls_hash_deinit(d->hash, sum);
    d->hash = NULL;
    memcpy(out, "sha256:", 7);
    for (size_t i = 0; i < SUM; i++)
        (void)snprintf(out + 7 + 2 * i, 3, "%02x", sum[i]);
}

void digest_done(struct digest *d)
{
    if (d->hash)
        gnutls_hash_deinit(d->hash, NULL);
    d->hash = NULL;
}

void digest_of(const void *data, size_t len, char out[STORE_DIGEST])
{
    auto_digest struct digest d = { 0 };

    digest_begin(&d);
    digest_add(&d, data, len);
    digest_end(&d, out);
}

int digest_of_file(int fd, char digest[STORE_DIGEST], int64_t *size,
                   struct vial_error *err)
{
    auto_digest struct digest d = { 0 };
    auto_free char *piece = malloc(PIECE);
    ssize_t n = -1;

    *size = 0;
    digest_begin(&d);
    if (!piece || lseek(fd, 0, SEEK_SET) < 0)
        return fail_memory(err);
    while ((n = read(fd, piece, PIECE)) > 0) {
        digest_add(&d, piece, (size_t)n);
        *size += n;
    }
    if (n < 0)
        return fail_sys(err, "read a layer");
    digest_end(&d, digest);
    return 0;
}
