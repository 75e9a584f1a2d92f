/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_LOWER_H
#define VIAL_IMAGES_FETCH_LOWER_H

/* What the layers below show under a path, as overlayfs would show it. */

#include <stdbool.h>
#include <sys/stat.h>

#include "images/fetch/image_work.h"

#define OPAQUE_XATTR "user.overlay.opaque"

struct lowers {
    int fds[LAYERS_MAX]; /* of their trees, lowest first */
    size_t count;
};

void lowers_done(struct lowers *l);

/* True: PATH (plain, relative) is there; *ST says what it is, and *DIR_FD, owned by the
 * caller, with *NAME, a part of PATH, where. The last component may be a link; one that
 * a path leads through is not there. */
bool lower_find(const struct lowers *l, const char *path, struct stat *st, int *dir_fd,
                const char **name);

bool lower_is_opaque(int dir_fd);

bool lower_is_whiteout(const struct stat *st);

#endif
