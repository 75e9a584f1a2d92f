/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_ENTRY_PATH_H
#define VIAL_IMAGES_FETCH_ENTRY_PATH_H

/* The path of an archive's entry, made plain: "./a//b/" is "a/b", "/" is "". */

#include <limits.h>

#include "vial/error.h"

#define ENTRY_DEPTH 256

/* Refuses "..", and what is too long or too deep. */
int entry_path(const char *text, char out[PATH_MAX], struct vial_error *err);

#endif
