/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_WORKSPACE_H
#define VIAL_WORKSPACE_WORKSPACE_H

/*
 * The overlay workspace of one session.
 *
 *   workspace_open (before the vessel: the host's tree as it is)
 *     -> workspace_mount (the layer that the vessel came with)
 *     -> { diff | commit | restore | save }* -> workspace_close
 *
 * It outlives the vessel. One call at a time; a lock sees to that.
 */

#include "workspace/checkpoint.h"

struct workspace;

/* The tree at ROOT, which must be the directory DEV, INO. STATE: the state directory;
 * commits that were cut off are finished there first. */
int workspace_open(const char *root, uint64_t dev, uint64_t ino, const char *state,
                   struct workspace **out, struct vial_error *err);
/* Takes copies of L's descriptors. */
int workspace_mount(struct workspace *w, const struct upper *l, struct vial_error *err);

int workspace_diff(struct workspace *w, const struct vial_diff_options *options,
                   struct vial_changes *out, struct vial_error *err);
int workspace_commit(struct workspace *w, const struct vial_commit_options *options,
                     struct vial_commit_report *out, struct vial_error *err);
/* NAME NULL: the host's tree. */
int workspace_restore(struct workspace *w, const char *name, struct vial_error *err);
int workspace_save(struct workspace *w, const char *name, struct vial_error *err);
/* Appends the checkpoints' names, oldest first. */
void workspace_points(struct workspace *w, struct strv *out);

void workspace_close(struct workspace *w); /* NULL is allowed */

#endif
