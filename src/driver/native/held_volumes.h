/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_HELD_VOLUMES_H
#define VIAL_DRIVER_NATIVE_HELD_VOLUMES_H

/* The volumes of a vessel, from before it is made until its last process has gone. */

#include <stddef.h>

#include "model/plan.h"
#include "volumes/volume_store.h"

#include "vial/error.h"

struct held_volumes {
    struct volume *items; /* one for each of the plan's mounts; most are none */
    size_t count;
};

/* Finds and locks them, in the order of the plan. VIAL_E_BUSY: another vessel writes to
 * one. */
int held_volumes_open(struct held_volumes *h, const struct plan *plan,
                      struct vial_error *err);
void held_volumes_close(struct held_volumes *h);

#endif
