/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_CLIENT_VOLUMES_H
#define VIAL_KEEPER_CLIENT_VOLUMES_H

/* volumes/volume_store.h for who has a keeper, and cannot enter the store: those that
 * the policy lets some caller have. */

#include "volumes/volume_store.h"

int kept_volumes(struct volume_info **out, size_t *count, struct vial_error *err);
int kept_volume(const char *name, struct volume_info *out, struct vial_error *err);
/* Of the terms `many` and `size`: the bounds the keeper knows. */
int kept_volume_make(const char *name, const struct volume_terms *terms,
                     struct vial_error *err);
int kept_volume_remove(const char *name, struct vial_error *err);

#endif
