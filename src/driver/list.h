/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_LIST_H
#define VIAL_DRIVER_LIST_H

/* The vessels that exist on this host, whoever made them. */

#include <jansson.h>

#include "vial/error.h"

/* Of the drivers whose guest is a process of this host: [ { "driver", "pid",
 * "owner" }… ]. NULL without memory. */
json_t *list_local(void);

/* Of every driver. An engine that cannot be reached has none. */
int list_all(json_t **out, struct vial_error *err);

#endif
