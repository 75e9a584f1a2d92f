/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_IMAGES_STORE_IDS_H
#define VIAL_IMAGES_STORE_IDS_H

/*
 * Whose the files of an ordinary user's store are. Where he has a range of ids
 * (base/subids.h) when his store is still empty, its file "ids" remembers which: from
 * then on files belong to the image's own numbers, 0 being himself. All layers of a
 * store are of one kind.
 */

#include "base/subids.h"

#include "vial/error.h"

/* For a vessel's image: true, with the range in OUT, if the store's files are of the
 * caller's range, and that can be mapped now. */
bool store_ids_hold(const char *store_dir, struct subids *out);

/* For who is to write to the store. STORE_ONE: all files are the caller's, and stay so.
 * An error: they are of a range that is not his any more. */
enum store_ids { STORE_ONE, STORE_RANGED, STORE_EMPTY /* it can be marked with OUT */ };
int store_ids_look(const char *store_dir, struct subids *out, struct vial_error *err);

/* Makes the store if need be, and marks it. */
int store_ids_mark(const char *store_dir, const struct subids *ids,
                   struct vial_error *err);

#endif
