/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_LAYERS_H
#define VIAL_IMAGES_FETCH_LAYERS_H

/*
 * From blobs in the work's directory to an image in the store.
 *
 *   blob-N, config, manifest  ->  layers_unpack  ->  layer-N/{fs, sums, owners}
 *                             ->  image_commit   ->  layers/, images/, names/
 */

#include "images/fetch/image_work.h"
#include "images/fetch/lower.h"

/* Which of PARTS' layers the store has. */
void layers_look(const struct work *w, struct image_parts *parts);

/* A stage (work_run): unpacks the blobs of the layers that are not here, and checks
 * them against their diff_ids. CONTEXT: the struct image_parts. */
int layers_unpack(const struct work *w, void *context, struct vial_error *err);

/* Opens the trees of the first COUNT layers: those here from the store, others from the
 * work's directory. */
int layers_open(const struct work *w, const struct image_parts *parts, size_t count,
                struct lowers *out, struct vial_error *err);

/* Puts the image into the store, under NAMES. Needs config and manifest in the work's
 * directory. *OUT is what vial_image_pull gives. */
int image_commit(const struct work *w, const struct image_parts *parts,
                 const struct strv *names, json_t **out, struct vial_error *err);

/* What the record of that image says but for its size and when it came. */
int image_record(const struct image_parts *parts, json_t *config, const char *name,
                 struct stored_image *out, struct vial_error *err);

#endif
