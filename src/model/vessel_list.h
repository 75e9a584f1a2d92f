/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_VESSEL_LIST_H
#define VIAL_MODEL_VESSEL_LIST_H

/* The list of vessels that exist (vial_vessel_list), and its JSON. */

#include <jansson.h>

#include "vial/vessels.h"

/* Appends a copy of V, whose texts stay the caller's. -1: no memory. */
int vessels_add(struct vial_vessels *list, const struct vial_vessel *v);

/* Only those whose name begins with PREFIX and a '-' stay. */
void vessels_keep(struct vial_vessels *list, const char *prefix);

#define auto_vessels __attribute__((cleanup(vial_vessels_free)))

json_t *vessels_json(const struct vial_vessels *list); /* NULL: no memory */

/* Appends the containers that vessels_json has written in another process. -1: no
 * memory. */
int vessels_decode(struct vial_vessels *list, json_t *all);

#endif
