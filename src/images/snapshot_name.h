/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_SNAPSHOT_NAME_H
#define VIAL_IMAGES_SNAPSHOT_NAME_H

/*
 * What images are called that a daemon's callers made of their sessions:
 *
 *   snapshot/OWNER/NAME:TAG    OWNER: 8 hex digits of who made it, to count his by
 *   fork/OWNER/NAME:TAG        goes with the vessel that was opened of it
 *
 * All callers use one store. TAG is 32 hex digits of chance: who does not know it
 * cannot name the image, and none replaces another.
 */

#include <stdbool.h>

#include "base/str.h"

#include "vial/error.h"

/* FORKS: it is temporary. NAME is the caller's own word. */
int snapshot_name_make(bool forks, const char *owner, const char *name, struct str *out,
                       struct vial_error *err);

bool snapshot_name_ok(const char *name);
bool snapshot_name_forks(const char *name);
/* Whether OWNER made it. */
bool snapshot_name_is_of(const char *name, const char *owner);

/* The names of all that OWNER made and that no fork is, in no order. */
int snapshot_names(const char *store_dir, const char *owner, struct strv *out,
                   struct vial_error *err);

/* Refuses another one for the owner in NAME where the store has too many of his. */
int snapshot_name_count(const char *store_dir, const char *name,
                        struct vial_error *err);

#endif
