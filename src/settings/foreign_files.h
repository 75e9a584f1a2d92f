/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_FOREIGN_FILES_H
#define VIAL_SETTINGS_FOREIGN_FILES_H

/* Files that a preset's system has: a language file, a list of mounts, `.env`. */

#include "settings/foreign_value.h"

/* The languages are those of the file PATH, and no others. */
int foreign_languages(const struct foreign_value *p, const char *path,
                      struct vial_error *err);

/* Takes what the preset itself mounts. */
int foreign_begin_mounts(struct settings *s, struct source *out, char *const *environ_,
                         struct vial_error *err);
/* Their list of mounts, on top of those. */
int foreign_mounts(const struct foreign_value *p, json_t *list, struct vial_error *err);

/*
 * A project's file of variables (`.env`), for presets whose system reads one: lines of
 * NAME=VALUE, perhaps with `export` before and quotes around the value. Of these only
 * the preset's own variables count, and only where the environment has none of that
 * name; nothing else of the file has any effect. Nothing is expanded or executed.
 */

/* Appends to OUT, as "NAME=VALUE", what TEXT, of WHERE, says of the names
 * that are keys of WANTED and not in ENVIRON_. */
int dotenv_read(const struct blob *text, const char *where, const json_t *wanted,
                char *const *environ_, struct strv *out, struct vial_error *err);

#endif
