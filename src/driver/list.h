/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_LIST_H
#define VIAL_DRIVER_LIST_H

/* The vessels that exist on this host, whoever made them. */

#include <jansson.h>

#include "vial/error.h"

/* Of every driver. An engine that cannot be reached has none. */
int list_all(json_t **out, struct vial_error *err);

/* The two parts of that: those whose guest is a process of this host, NULL without
 * memory; and the container engine's. */
json_t *list_here(void);
int list_contained(json_t **out, struct vial_error *err);

#endif
