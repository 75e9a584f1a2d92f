/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_LIST_H
#define VIAL_DRIVER_LIST_H

/* The vessels that exist on this host, whoever made them. */

#include "model/vessel_list.h"

/* All append. Those whose guest is a process of this host; and the container engine's,
 * of which there are none if it cannot be reached. */
int list_here(struct vial_vessels *list, struct vial_error *err);
int list_contained(struct vial_vessels *list, struct vial_error *err);

#endif
