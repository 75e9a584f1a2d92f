/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_CONFINE_H
#define VIAL_IMAGES_FETCH_CONFINE_H

/*
 * What a stage of vial-image gives up before it looks at strangers' bytes:
 * capabilities, the file system outside of the work's directory (Landlock), system
 * calls that it does not need (seccomp), memory beyond a bound.
 */

#include "images/fetch/image_work.h"

struct confinement {
    bool network;      /* sockets, and reading what resolves names and checks keys */
    bool owners;       /* changing owners, of files in the work's directory */
    int read_fd;       /* a directory that may be read besides, or -1 */
    int64_t max_bytes; /* of one file */
};

/* Keeps what changing owners takes (OWNERS, of root alone), and no other capability. */
int confine_rights(bool owners, struct vial_error *err);

int confine_self(const struct work *w, const struct confinement *c,
                 struct vial_error *err);

#endif
