/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_PATCH_H
#define VIAL_WORKSPACE_PATCH_H

/* The difference of two texts in the unified form that patch(1) and git take. */

#include "base/str.h"

/* True unless a byte of it is NUL. */
bool patch_is_text(const struct blob *b);

/* Appends hunks with three lines around each, without the two lines of names; nothing
 * where the texts are equal. Sticky as STR is. */
void patch_hunks(struct str *out, const struct blob *before, const struct blob *after);

#endif
