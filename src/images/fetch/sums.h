/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_SUMS_H
#define VIAL_IMAGES_FETCH_SUMS_H

/*
 * A tree as lines, one for each file, in an order that is always the same:
 *
 *   KIND MODE UID GID SIZE MTIME CONTENT ATTRIBUTES PATH
 *
 * CONTENT is the digest of a file's bytes, or where a link leads; ATTRIBUTES the digest
 * of its extended attributes, or "-".
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#include "vial/error.h"

/* The names in the directory, sorted. 0, or -1 and errno. */
int tree_names(int dir_fd, struct strv *out);

/* Writes the lines of the tree ROOT_FD to OUT_FD; *BYTES is what it takes on disk. */
int sums_write(int root_fd, int out_fd, int64_t *bytes, struct vial_error *err);

/* Appends to FOUND what differs: "changed PATH", "missing PATH", "added PATH"; at most
 * MAX of them. */
int sums_compare(int old_fd, int new_fd, size_t max, struct strv *found,
                 struct vial_error *err);

#endif
