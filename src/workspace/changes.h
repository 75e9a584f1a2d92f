/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_CHANGES_H
#define VIAL_WORKSPACE_CHANGES_H

/*
 * Lists what a layer (an overlay's upper directory, or a copy of one) changes in the
 * host's tree. The layer may be written to meanwhile: then the list is of no single
 * moment, but every entry was so at some.
 */

#include "workspace/origin.h"

#include "vial/workspace.h"

/* The two sides that are compared: the layer, and the host's tree. Descriptors are
 * borrowed. */
struct sides {
    int root_fd;  /* the host's tree, as it is now */
    int layer_fd; /* the upper directory */
    const struct origin *origin;
};

/* The changes sorted by path, without diffs. Below PATHS alone (NULL-terminated),
 * with the directories that are new on the way to them; NULL: all. */
int changes_read(const struct sides *s, const char *const *paths,
                 struct vial_changes *out, struct vial_error *err);

/* NULL: PATH is not among them. */
const struct vial_change *changes_find(const struct vial_changes *c, const char *path);

/* True if a link at PATH with TARGET may lead out of the tree. */
bool changes_leads_out(const char *path, const char *target);

#define CHANGES_OPAQUE "user.overlay.opaque"

/* True if the layer's directory PATH hides what the host has in it. */
bool changes_is_opaque(int layer_fd, const char *path);

/* Adds unified diffs where both sides are text of at most MAX bytes. */
int changes_add_diffs(const struct sides *s, struct vial_changes *c, uint64_t max,
                      struct vial_error *err);

#define auto_changes __attribute__((cleanup(vial_changes_free)))

#endif
