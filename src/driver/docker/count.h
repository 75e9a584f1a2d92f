/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_COUNT_H
#define VIAL_DRIVER_DOCKER_COUNT_H

/*
 * What a container used: from its own cgroup where the engine runs on this host
 * and in our pid namespace, else from what the engine says.
 */

#include "driver/docker/api.h"
#include "driver/driver.h"
#include "driver/native/cgroup.h"

struct count {
    pid_t pid;            /* of the guest, here; 0: it is not visible */
    struct cgroup cgroup; /* of kind CGROUP_NONE when it is not visible */
};

void count_init(struct count *c);

/* PID is what the engine says, ID the container's. What cannot be seen from here
 * is left out. */
void count_find(struct count *c, pid_t pid, const char *id);

/* False when nothing can be had that way. */
bool count_read(const struct count *c, struct vessel_usage *out);

/* The engine's own figures; slower. */
void count_ask(const struct api *api, const char *id, struct vessel_usage *out);

void count_done(struct count *c);

#endif
