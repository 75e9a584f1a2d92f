/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_IMAGE_H
#define VIAL_DRIVER_DOCKER_IMAGE_H

/* The engine's images. */

#include "driver/docker/api.h"

#include "vial/vessels.h"

/* A name as the engine takes it apart. */
struct image_name {
    char name[512];
    char tag[160]; /* "latest" when none was given; or a digest */
    bool pinned;   /* TAG is a digest */
};

/* Refuses what is not "name", "name:tag" or "name@sha256:…". */
int image_parse(const char *text, struct image_name *out, struct vial_error *err);

/* Pulls, and looks whether it is there. *OUT: { "id", "tags", "digests", "size" }. */
int image_pull(const struct api *api, const struct vial_pull *pull, json_t **out,
               struct vial_error *err);

int image_list(const struct api *api, json_t **out, struct vial_error *err);
int image_prune(const struct api *api, bool all, json_t **out, struct vial_error *err);

#endif
