/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_API_GIVE_H
#define VIAL_API_GIVE_H

/* How public functions give JSON. */

#include <jansson.h>

#include "vial/error.h"

/* Takes VALUE, which may be NULL for lack of memory. *JSON is malloc'ed text. */
int text_give(json_t *value, char **json, struct vial_error *err);

#endif
