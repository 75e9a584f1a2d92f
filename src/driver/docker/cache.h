/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_CACHE_H
#define VIAL_DRIVER_DOCKER_CACHE_H

/*
 * Cache volumes. The engine makes one when a container first names it, and root's; a
 * program is never root. So one that is new is opened to all by a container of its
 * own, in which nothing but the guest runs, as root without capabilities. What runs
 * leave there is not trusted by anybody: each run may read and add, and remove only
 * what its own user made.
 */

#include "driver/docker/container.h"
#include "driver/docker/engine_api.h"

/* Sees to it that PLAN's caches, which container ID has, can be used. */
int cache_open(const struct api *api, const char *id, const struct plan *plan,
               const struct container_options *o, struct vial_error *err);

/* The volumes that are caches of ours: [ { "name", "created" }… ] */
int cache_list(const struct api *api, json_t **out, struct vial_error *err);

/* Removes those that no container uses. */
int cache_prune(const struct api *api, unsigned *removed, struct vial_error *err);

#endif
