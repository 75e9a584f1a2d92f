/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/native.h"

#include "keeper/keeper.h"

const struct driver *const keeper_driver = &driver_native;
