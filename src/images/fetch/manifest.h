/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_MANIFEST_H
#define VIAL_IMAGES_FETCH_MANIFEST_H

/* Manifests, indexes and configs: strangers' JSON, bounded and judged. */

#include "images/fetch/image_work.h"

/* What a registry is asked for. */
#define MANIFEST_ACCEPT                                                                \
    "Accept: application/vnd.oci.image.manifest.v1+json, "                             \
    "application/vnd.oci.image.index.v1+json, "                                        \
    "application/vnd.docker.distribution.manifest.v2+json, "                           \
    "application/vnd.docker.distribution.manifest.list.v2+json"

/* Of an index, the manifest for JOB's platform: *CHOSEN is its digest, *SIZE its size.
 * Of a manifest itself: *CHOSEN "". */
int manifest_choose(json_t *root, const struct job *job, char chosen[STORE_DIGEST],
                    int64_t *size, struct vial_error *err);

/* Everything of OUT but diff_ids, chains and the digest of the manifest itself. */
int manifest_read(json_t *root, const struct job *job, struct image_parts *out,
                  struct vial_error *err);

/* The diff_ids and chains from the config; the platform has to be JOB's. */
int manifest_read_config(json_t *config, const struct job *job,
                         struct image_parts *parts, struct vial_error *err);

/* Parses TEXT, whose digest must be DIGEST unless that is "". */
int manifest_parse(const struct blob *text, const char *digest, const char *what,
                   json_t **out, struct vial_error *err);

/* A manifest for a config and layers that have none: *OUT is malloc'ed text. The blobs
 * of its layers are their tars. */
int manifest_make(const struct image_parts *parts, char **out, struct vial_error *err);

#endif
