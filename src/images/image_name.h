/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_IMAGE_NAME_H
#define VIAL_IMAGES_IMAGE_NAME_H

/* What users call images. */

#include <stdbool.h>

#include "vial/error.h"

/* A name taken apart. */
struct image_name {
    char name[512];
    char tag[160]; /* "latest" when none was given; or a digest */
    bool pinned;   /* TAG is a digest */
};

/* Refuses what is not "name", "name:tag" or "name@sha256:…". */
int image_parse(const char *text, struct image_name *out, struct vial_error *err);

/* Whether NAME begins with a registry: "host.example/…", "host:5000/…", "localhost/…".
 */
bool image_names_host(const char *name);

/* "sha256:" and 64 hex digits in lower case. */
bool image_is_digest(const char *text);

#endif
