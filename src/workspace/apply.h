/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_APPLY_H
#define VIAL_WORKSPACE_APPLY_H

/*
 * Carrying out a journal's ops in the host's tree. Each is done by renaming, can be
 * done again when it is done already, and can be taken back: nothing is lost before
 * the staging directory goes.
 */

#include "workspace/journal.h"

struct apply_place {
    int root_fd;  /* the tree */
    int stage_fd; /* the staging directory in it */
};

/* All ops. 1 and the path in *CONFLICT (borrowed) when the host has something else
 * there than the record says: then, as after -1, apply_undo. */
int apply_all(const struct apply_place *p, const struct ops *ops, const char **conflict,
              struct vial_error *err);
int apply_undo(const struct apply_place *p, const struct ops *ops,
               struct vial_error *err);

/* Removes the staging directory NAME of the tree. 0 or -errno. */
int apply_clean(int root_fd, const char *name);

/* Finishes or takes back every commit whose process has died. One that cannot be
 * (its tree is not there now) stays for later; it is a failure only if it is one to
 * ROOT, or if that is NULL. */
int apply_recover(const char *state, const char *root, struct vial_error *err);

/* The name of number N in the staging directory: 'n' for new, 'k' for kept. */
struct stage_name {
    char text[16];
};
struct stage_name apply_name(char kind, unsigned number);

#endif
