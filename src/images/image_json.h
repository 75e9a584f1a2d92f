/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_IMAGE_JSON_H
#define VIAL_IMAGES_IMAGE_JSON_H

/* Stored images, as front ends tell of them. */

#include <jansson.h>

#include "images/store.h"

/* All images: a list of objects with "id", "tags", "digests", "size", as an engine's.
 */
int store_list_json(const char *store_dir, json_t **out, struct vial_error *err);

/* One of them, with what its config says and its layers. */
int store_inspect_json(const char *store_dir, const char *reference, json_t **out,
                       struct vial_error *err);

#endif
