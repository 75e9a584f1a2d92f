/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_UNPACK_H
#define VIAL_IMAGES_FETCH_UNPACK_H

/*
 * A layer's tar becomes a tree in overlayfs' form. Nothing in the archive is trusted:
 *
 *   names        relative, without "..", at most 4095 bytes and 256 deep
 *   directories  entered one by one, never through a link
 *   links        symbolic ones are made and never followed; hard ones lead to a file of
 *                this image
 *   devices      those that every root has below /dev are left out (a vessel has its
 *                own), others refuse the image; sockets are left out
 *   owners       0 … 65535; kept by root. Others own all files themselves: setuid and
 *                setgid bits go, owners read and write, and what the image said is
 *                written to `owners`
 *   attributes   user.* and security.capability, but never overlayfs' own; at most 64,
 *                and 64 KiB, of a file
 *   sizes        files, bytes, and bytes of the archive are counted for the whole image
 */

#include "images/fetch/image_work.h"
#include "images/fetch/lower.h"

struct unpack_limits {
    int64_t bytes, files; /* that are left */
};

/* Unpacks the blob BLOB_FD (a tar; gzip, zstd or plain) into the empty directory
 * ROOT_FD; what is to be in `owners` goes to OWNERS. *DIFF_ID is the tar's digest. */
int unpack_layer(int blob_fd, int root_fd, const struct lowers *below,
                 struct unpack_limits *left, struct str *owners,
                 char diff_id[STORE_DIGEST], struct vial_error *err);

#endif
