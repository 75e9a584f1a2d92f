/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_FOREIGN_PARTS_H
#define VIAL_MODEL_FOREIGN_PARTS_H

/* What the files of foreign.h share. */

#include "model/passage.h"

/* foreign_languages.c: the languages are those of the file PATH, and no others. */
int foreign_languages(const struct passage *p, const char *path,
                      struct vial_error *err);

/* foreign_mounts.c: what the preset itself mounts. */
int foreign_begin_mounts(struct settings *s, struct source *out, char *const *environ_,
                         struct vial_error *err);
/* Their list of mounts, on top of those. */
int foreign_mounts(const struct passage *p, json_t *list, struct vial_error *err);

#endif
