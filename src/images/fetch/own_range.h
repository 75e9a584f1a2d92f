/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_FETCH_OWN_RANGE_H
#define VIAL_IMAGES_FETCH_OWN_RANGE_H

/*
 * An ordinary user's vial-image works in a user namespace of its own where his store's
 * files are of a range of ids: it is root in there, whose capabilities are those over
 * files within the range, and no others. Elsewhere it stays who it is.
 */

#include "vial/error.h"

/* For the program's first process, before it has others. */
int own_range_enter(const char *store_dir, struct vial_error *err);

#endif
