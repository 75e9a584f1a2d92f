/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_DOTENV_H
#define VIAL_SETTINGS_DOTENV_H

/*
 * A project's file of variables (`.env`), for presets whose system reads one: lines of
 * NAME=VALUE, perhaps with `export` before and quotes around the value. Of these only
 * the preset's own variables count, and only where the environment has none of that
 * name; nothing else of the file has any effect. Nothing is expanded or executed.
 */

#include <jansson.h>

#include "base/str.h"

#include "vial/error.h"

/* Appends to OUT, as "NAME=VALUE", what TEXT, of WHERE, says of the names
 * that are keys of WANTED and not in ENVIRON_. */
int dotenv_read(const struct blob *text, const char *where, const json_t *wanted,
                char *const *environ_, struct strv *out, struct vial_error *err);

#endif
