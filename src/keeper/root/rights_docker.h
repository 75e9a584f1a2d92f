/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_ROOT_RIGHTS_DOCKER_H
#define VIAL_KEEPER_ROOT_RIGHTS_DOCKER_H

/* Functions of the container engine's keeper alone. */

#include "keeper/root/keeper.h"

/* The life of a warden that was asked about images. */
void images_serve(struct warden *w, struct vial_error *err);

#endif
