/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_CLIENT_IMAGES_H
#define VIAL_KEEPER_CLIENT_IMAGES_H

/* The container engine's images, and its vessels, through the keeper that may use its
 * socket. *OUT is as vial/vessels.h has it. */

#include <jansson.h>

#include "vial/vessels.h"

int kept_vessel_list(struct vial_vessels *list, struct vial_error *err); /* appends */
int kept_image_list(json_t **out, struct vial_error *err);
int kept_image_prune(bool all, json_t **out, struct vial_error *err);
/* Letting go of it ends the pull. */
int kept_image_pull(const struct vial_pull *pull, json_t **out, struct vial_error *err);

#endif
