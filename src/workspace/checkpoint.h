/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_CHECKPOINT_H
#define VIAL_WORKSPACE_CHECKPOINT_H

/*
 * The writable side of an overlay: its upper directory, copies of that (checkpoints)
 * beside it, and the overlay as programs see it. The upper directory itself is only
 * ever read: what is under a mounted overlay must not be written to. All that is
 * written goes through the overlay, or to the copies.
 */

#include <sys/types.h>

#include "workspace/changes.h"

struct upper {
    int dir_fd;    /* holds "upper" and "points" */
    int merged_fd; /* the overlay */
    uid_t id;      /* whose all of it is */
};

/* Copies "upper" to "points/NAME", in place of what is there. */
int checkpoint_save(const struct upper *l, const char *name, struct vial_error *err);

/* Brings the overlay to the state of "points/NAME"; NULL: of the host's tree. NOW are
 * the sides with "upper". */
int checkpoint_restore(const struct upper *l, const struct sides *now, const char *name,
                       struct vial_error *err);

/* Forgets all checkpoints. 0 or -errno. */
int checkpoint_forget(const struct upper *l);

#endif
