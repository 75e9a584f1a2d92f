/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_FOREIGN_PARTS_H
#define VIAL_SETTINGS_FOREIGN_PARTS_H

/* Shared by the files of foreign.h. */

#include "settings/foreign_value.h"

/* foreign_blocks.c: the languages are those of the file PATH, and no others. */
int foreign_languages(const struct foreign_value *p, const char *path,
                      struct vial_error *err);

/* foreign_blocks.c: what the preset itself mounts. */
int foreign_begin_mounts(struct settings *s, struct source *out, char *const *environ_,
                         struct vial_error *err);
/* Their list of mounts, on top of those. */
int foreign_mounts(const struct foreign_value *p, json_t *list, struct vial_error *err);

#endif
