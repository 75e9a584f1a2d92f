/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_USAGE_H
#define VIAL_DRIVER_DOCKER_USAGE_H

/*
 * Reads what a container used: from its own cgroup where the engine runs on this host
 * and in our pid namespace, else from what the engine says.
 */

#include "driver/docker/engine_api.h"
#include "driver/driver.h"
#include "driver/native/cgroup.h"

struct container_usage {
    pid_t pid;            /* of the guest, here; 0: it is not visible */
    struct cgroup cgroup; /* of kind CGROUP_NONE when it is not visible */
};

void container_usage_init(struct container_usage *c);

/* PID is what the engine says, ID the container's. What cannot be seen from here
 * is left out. */
void container_usage_find(struct container_usage *c, pid_t pid, const char *id);

/* False when nothing can be had that way. */
bool container_usage_read(const struct container_usage *c, struct vessel_usage *out);

/* The engine's own figures; slower. */
void container_usage_ask(const struct api *api, const char *id,
                         struct vessel_usage *out);

void container_usage_done(struct container_usage *c);

#endif
