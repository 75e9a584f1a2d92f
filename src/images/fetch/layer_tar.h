/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_LAYER_TAR_H
#define VIAL_IMAGES_FETCH_LAYER_TAR_H

/* A layer's tree becomes a tar again, with whiteouts as images have them. */

#include <stdint.h>
#include <sys/types.h>

#include "images/store.h"

/* Whose the files are, and which of them. Zero: as they are, and all. */
struct layer_tar {
    const char *owners;      /* what a store says of them (see unpack.h); "" or NULL */
    uid_t first_id;          /* what is 0 in the image: a range of FILE_OWNERS */
    uid_t all_id;            /* whose all are in the image, or 0 */
    const char *const *left; /* paths that are left out; NULL-terminated, or NULL */
    int64_t max_bytes;       /* more than that is refused; 0: any */
};

/* Writes the tree ROOT_FD, which others may change meanwhile, to OUT_FD. Sockets are
 * left out. */
int layer_tar_write(int root_fd, const struct layer_tar *how, int out_fd,
                    struct vial_error *err);

#endif
