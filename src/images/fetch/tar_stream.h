/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_TAR_STREAM_H
#define VIAL_IMAGES_FETCH_TAR_STREAM_H

/* A tar that may be compressed, read from a descriptor; its uncompressed bytes are
 * counted and hashed on their way. */

#include <archive.h>
#include <archive_entry.h>

#include "images/fetch/digest.h"

struct tar_stream {
    struct archive *outer; /* bytes without compression */
    struct archive *inner; /* entries of the tar */
    struct digest digest;
    int64_t left; /* uncompressed bytes that may come */
    bool full;    /* there were more */
};

int tar_stream_open(struct tar_stream *t, int fd, int64_t max_bytes,
                    struct vial_error *err);
/* 1: *ENTRY is the next; 0: that was all. */
int tar_stream_next(struct tar_stream *t, struct archive_entry **entry,
                    struct vial_error *err);
/* Reads what follows the tar's end, and says what all had for a digest. */
int tar_stream_end(struct tar_stream *t, char digest[STORE_DIGEST],
                   struct vial_error *err);
/* Why the last read failed. */
int tar_stream_fail(struct tar_stream *t, struct vial_error *err);
void tar_stream_done(struct tar_stream *t);

#endif
