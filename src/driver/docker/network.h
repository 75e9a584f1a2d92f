/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_NETWORK_H
#define VIAL_DRIVER_DOCKER_NETWORK_H

/* The engine's networks. A plan names one; whether that is what its name says, and
 * no way to the host's own, is asked of the engine. */

#include "driver/docker/engine_api.h"
#include "model/plan.h"

/* 0 when PLAN joins no network by name, or one that may be joined. */
int network_check(const struct api *api, const struct plan *plan,
                  struct vial_error *err);

#endif
