/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_COMMIT_H
#define VIAL_WORKSPACE_COMMIT_H

/*
 * Changes of a layer into the host's tree, all or none of them:
 *
 *   look (obstacles, conflicts) -> stage copies beside the tree -> journal -> apply
 *
 * What is applied are the copies, not the layer, which may change meanwhile.
 */

#include "workspace/changes.h"

struct commit {
    struct sides sides;
    const char *root;  /* path of the tree */
    const char *state; /* the state directory */
    bool links_out;    /* links that lead out are welcome */
};

int commit_apply(const struct commit *c, const struct vial_changes *changes,
                 struct vial_commit_report *out, struct vial_error *err);

#endif
