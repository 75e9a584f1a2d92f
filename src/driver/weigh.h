/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_WEIGH_H
#define VIAL_DRIVER_WEIGH_H

#include "driver/driver.h"

/* Weighs the memory of the vessel's processes: the proportional set size of its guest
 * and of the guest's children, in bytes. 0 when it cannot be told. */
uint64_t weigh_vessel(const struct vessel *v);

#endif
