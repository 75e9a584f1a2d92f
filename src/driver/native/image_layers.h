/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_IMAGE_LAYERS_H
#define VIAL_DRIVER_NATIVE_IMAGE_LAYERS_H

/*
 * The layers of an image, from which the child makes its root. They stay where they are
 * in the store, and whose files they are on disk is what the image says (0 … 65535)
 * where root keeps the store. The mount that the child gets of it shows those as the
 * vessel's own ids, so that nothing is copied or changed:
 *
 *   image_layers_read -> (the child starts, with its ids) -> image_layers_mount
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/auto.h"
#include "base/str.h"
#include "images/store.h"
#include "model/plan.h"

#include "vial/error.h"

#define IMAGE_LAYERS_MAX 200

struct image_layers {
    struct stored_image stored; /* locked, so that nobody removes it */
    struct strv names;          /* of its layers below the store, topmost first */
    uint64_t dev, ino;          /* of the store */
    char *passwd, *group; /* the image's with our users in it; NULL: as they are */
    bool unmapped;        /* its files belong to nobody inside */
};

#define IMAGE_LAYERS_NONE                                                              \
    {                                                                                  \
        .stored = STORED_IMAGE_NONE                                                    \
    }

/* Finds the plan's image, and reads what it says of users. VIAL_E_IMAGE: it is not
 * here. */
int image_layers_read(const struct plan *plan, struct image_layers *out,
                      struct vial_error *err);

/* A detached mount of the store, with files of user N as those of N in the user
 * namespace of process PID. */
int image_layers_mount(const struct plan *plan, pid_t pid, struct image_layers *layers,
                       struct vial_error *err);

void image_layers_done(struct image_layers *l);
#define auto_image_layers __attribute__((cleanup(image_layers_done)))

#endif
