/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_RECORD_H
#define VIAL_IMAGES_RECORD_H

/*
 * What the store knows of an image, as lines "key value". In values, control
 * characters, blanks, "%" and what is not ASCII stand as %XX.
 */

#include "images/store.h"

void record_escape(struct str *out, const char *text);

/* All but lowers, used and the lock. */
void record_write(struct str *out, const struct stored_image *image);

/* Fills OUT, which is empty. Refuses lines that it does not know: the store is of a
 * later vial, or not whole. */
int record_read(const char *text, struct stored_image *out, struct vial_error *err);

#endif
