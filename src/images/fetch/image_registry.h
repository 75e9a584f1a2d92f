/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_IMAGE_REGISTRY_H
#define VIAL_IMAGES_FETCH_IMAGE_REGISTRY_H

/* An image comes from a registry, or from one of its mirrors, into the work's
 * directory. */

#include "images/fetch/image_transfer.h"
#include "images/image_name.h"

#define ENDPOINTS_MAX 20

struct registry {
    struct endpoint endpoints[ENDPOINTS_MAX]; /* in the order they are asked in */
    size_t count;
    char reference[160]; /* a tag or digest */
    char *ca;            /* where the authorities are, or NULL */
};

/* Where JOB's image comes from, and who we are there. */
int registry_open(const struct job *job, struct registry *out, struct vial_error *err);
void registry_close(struct registry *r);

/* A stage (work_run): index, manifest, config and the blobs of layers that the store
 * has not. CONTEXT: the struct registry. */
int registry_fetch(const struct work *w, void *context, struct vial_error *err);

/* The parts of the image from its manifest and config in the work's directory, whose
 * digests are checked. PINNED: the digest of its manifest, or of its index, or "". */
int registry_parts(const struct work *w, const char *pinned, struct image_parts *out,
                   struct vial_error *err);

#endif
