/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_DIGEST_H
#define VIAL_IMAGES_FETCH_DIGEST_H

/* SHA-256 of much data: gnutls has the processor's own instructions for it. */

#include <gnutls/crypto.h>
#include <stddef.h>

#include "images/store.h"

struct digest {
    gnutls_hash_hd_t hash; /* NULL: not begun */
};

void digest_begin(struct digest *d); /* again: anew */
void digest_add(struct digest *d, const void *data, size_t len);
void digest_end(struct digest *d, char out[STORE_DIGEST]); /* "sha256:…" */
void digest_done(struct digest *d);
#define auto_digest __attribute__((cleanup(digest_done)))

void digest_of(const void *data, size_t len, char out[STORE_DIGEST]);

/* Of the whole file, which is as long as *SIZE. */
int digest_of_file(int fd, char digest[STORE_DIGEST], int64_t *size,
                   struct vial_error *err);

#endif
