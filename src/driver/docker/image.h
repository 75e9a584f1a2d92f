/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_IMAGE_H
#define VIAL_DRIVER_DOCKER_IMAGE_H

/* The engine's images. */

#include "driver/docker/engine_api.h"
#include "images/image_config.h"
#include "images/image_name.h"

#include "vial/vessels.h"

/* Looks whether it is there, with the digest that NAME may have. TEXT is what the user
 * calls it. *OUT: { "id", "tags", "digests", "size" }. */
int image_verify(const struct api *api, const char *text, const struct image_name *name,
                 json_t **out, struct vial_error *err);

/* pull.c: pulls, again if a failure may pass, and verifies. All of PULL is set. */
int image_pull(const struct api *api, const struct vial_pull *pull, json_t **out,
               struct vial_error *err);

/* Whether the engine's words about a failed pull mean that another try may help. */
bool image_may_pass(const char *trouble);

int image_list(const struct api *api, json_t **out, struct vial_error *err);
int image_prune(const struct api *api, bool all, json_t **out, struct vial_error *err);

/* The config of the image TEXT, which must be there: VIAL-IMAGE when it is not;
 * VIAL-IMAGE-CONFIG when what it says is beyond the bounds. */
int config_read(const struct api *api, const char *text, struct image_config *out,
                struct vial_error *err);

#endif
