/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/docker.h"

#include "keeper/keeper.h"

const struct driver *const keeper_driver = &driver_docker;

/* Root's name is enough to use the engine's socket; the engine does the rest. */
const uint64_t keeper_caps = 0;
