/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_STORE_REMOVE_H
#define VIAL_IMAGES_STORE_REMOVE_H

/*
 * What goes from the store. An image that a vessel uses stays. Each thing is first
 * moved to the store's tmp, as a whole: who is killed in between leaves nothing half.
 */

#include <stdint.h>

#include "images/store.h"

struct store_removed {
    unsigned images;
    int64_t bytes; /* of layers */
};

/* A name, and the image if that was its last one; or an image by its digest, with all
 * its names. VIAL-BUSY: a vessel uses it. */
int store_remove(const char *store_dir, const char *reference,
                 struct store_removed *out, struct vial_error *err);

struct store_prune {
    bool all;             /* also those that have names */
    int64_t unused_for_s; /* all that were not used for so long; 0: any time */
    int64_t max_bytes;    /* those that were not used longest, until the rest is not
                             larger; 0: any size */
};

/* Removes images by these rules, none being those without a name; layers that no image
 * has; and what makers that have died left. */
int store_prune(const char *store_dir, const struct store_prune *rules,
                struct store_removed *out, struct vial_error *err);

/* Removes what makers that have died left in tmp: nobody holds a lock on it. */
void store_sweep(int store_fd);

#endif
