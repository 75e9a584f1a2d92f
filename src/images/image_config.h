/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_IMAGE_CONFIG_H
#define VIAL_IMAGES_IMAGE_CONFIG_H

/*
 * An image's config tells about itself: ENV, WORKDIR, USER, ENTRYPOINT and CMD; and its
 * VOLUMEs and labels, which get nowhere. Whoever made the image made its programs too,
 * so that its ENV gives nobody power over them that he does not have; but it is
 * bounded, and the guest, which is ours, sees none of it (docs/adr/0035, 0045). One
 * judge for the images of container engines and for those of the store.
 */

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

#include "vial/error.h"

struct image_config {
    char id[80];     /* which image that was, for who asked an engine; else "" */
    char arch[16];   /* what its programs are for, as the engine calls it; or "" */
    struct strv env; /* "NAME=VALUE", each name once */
    char *cwd;    /* where its programs start, absolute and clean; NULL: it says not */
    unsigned uid; /* who they are; 0: it says not, or root, or a name */
    unsigned gid;
    bool named;                   /* it says a name, which may be the usual user's */
    struct strv volumes;          /* where an engine would put disk of its own; clean */
    struct strv posing;           /* keys of labels that look like ours */
    struct strv entrypoint, args; /* ENTRYPOINT and CMD */

    /* Of labels that `vial template build` gives (docs/adr/0083). */
    bool is_template;
    struct strv imports; /* modules that a waiting Python has imported */
    unsigned pool;       /* how many vessels wait; 0: it says not */
};

#define CONFIG_LABEL         "vial.template"
#define CONFIG_LABEL_IMPORTS CONFIG_LABEL ".imports" /* with blanks between them */
#define CONFIG_LABEL_POOL    CONFIG_LABEL ".pool"
#define CONFIG_IMPORTS       64
#define CONFIG_POOL          64

/* Whether NAME is a module's: "os.path". */
bool config_is_module(const char *name);

/* Judges CONFIG, an object with "Env", "WorkingDir" … or NULL. IMAGE is for messages.
 * VIAL-IMAGE-CONFIG when what it says is beyond the bounds. */
int config_parse(json_t *config, const char *image, struct image_config *out,
                 struct vial_error *err);
void config_done(struct image_config *c);

/* Appends to OUT those of its variables whose names a shell would take. */
void config_variables(const struct image_config *c, struct strv *out);

#endif
