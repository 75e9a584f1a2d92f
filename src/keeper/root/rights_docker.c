/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/root/rights_docker.h"

#include "driver/docker/docker.h"

const struct driver *const keeper_driver = &driver_docker;
keeper_task *const keeper_images = images_serve;

/* Root's name is enough to use the engine's socket; the engine does the rest. */
const uint64_t keeper_caps = 0;
