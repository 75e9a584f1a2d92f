/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_CONFIG_H
#define VIAL_DRIVER_DOCKER_CONFIG_H

/*
 * An image's config tells about itself: ENV, WORKDIR, USER; and its VOLUMEs and labels,
 * which get nowhere. Whoever made the image made its programs too, so that its ENV
 * gives nobody power over them that he does not have; but it is bounded, and the guest,
 * which is ours, sees none of it (docs/adr/0035, 0045).
 */

#include "driver/docker/engine_api.h"

struct image_config {
    char id[80];     /* which image that was */
    struct strv env; /* "NAME=VALUE", each name once */
    char *cwd;    /* where its programs start, absolute and clean; NULL: it says not */
    unsigned uid; /* who they are; 0: it says not, or root, or a name */
    unsigned gid;
    bool named;          /* it says a name, which may be the usual user's */
    struct strv volumes; /* where the engine would put disk of its own; clean */
    struct strv posing;  /* keys of labels that look like ours */
};

/* The config of the image TEXT, which must be there: VIAL-IMAGE when it is not;
 * VIAL-IMAGE-CONFIG when what it says is beyond the bounds. */
int config_read(const struct api *api, const char *text, struct image_config *out,
                struct vial_error *err);
void config_done(struct image_config *c);

/* The same from the engine's words; pure. IMAGE is for messages. */
int config_parse(json_t *answer, const char *image, struct image_config *out,
                 struct vial_error *err);

/* Appends to OUT those of its variables whose names a shell would take. */
void config_variables(const struct image_config *c, struct strv *out);

#endif
