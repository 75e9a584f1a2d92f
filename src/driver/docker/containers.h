/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_CONTAINERS_H
#define VIAL_DRIVER_DOCKER_CONTAINERS_H

/* The containers that are ours, by label: listing them, and removing what dead
 * owners left. Several may do so at once. */

#include <stdbool.h>

#include "driver/docker/engine_api.h"
#include "model/vessel_list.h"

/* Which boot of which host this is, for LABEL_HOST; "" when it cannot be told. */
#define CONTAINERS_HOST 40
void containers_host(char out[CONTAINERS_HOST]);

/* Finds the engine: 1 when it answers, 0 when there is none, which is no error; or
 * -1. Does not wait long. */
int containers_reach(struct api *api, struct vial_error *err);

/* Appends them. */
int containers_list(const struct api *api, struct vial_vessels *list,
                    struct vial_error *err);

/* How many are open now: MINE of PREFIX, ALL of any. */
int containers_count(const struct api *api, const char *prefix, int64_t *mine,
                     int64_t *all, struct vial_error *err);

/* Removes containers whose owner is dead and which are AGE_S seconds old, MAX at
 * most. *REMOVED, which may be NULL, does not count those that somebody else was
 * faster to remove; it is right on failure, too. One whose owner lives, or cannot be
 * judged from here, is left alone. */
int containers_sweep(const struct api *api, int64_t age_s, unsigned max,
                     unsigned *removed, struct vial_error *err);

/* Whether WHY, of a question about a container, says that it is gone already, or on its
 * way. */
bool containers_is_gone(const struct vial_error *why);

/* Kills and removes container ID. 1: it is gone already, or on its way. */
int containers_remove(const struct api *api, const char *id, struct vial_error *err);

#endif
