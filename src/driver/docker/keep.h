/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_KEEP_H
#define VIAL_DRIVER_DOCKER_KEEP_H

/* The containers that are ours, by label: listing them, and removing what dead
 * owners left. Several may do so at once. */

#include <jansson.h>
#include <stdbool.h>

#include "driver/docker/api.h"

/* Which boot of which host this is, for LABEL_HOST; "" when it cannot be told. */
#define KEEP_HOST 40
void keep_host(char out[KEEP_HOST]);

/* [ { "id", "name", "vessel", "session", "task", "image", "state", "created",
 *     "orphan" }… ] */
int keep_list(const struct api *api, json_t **out, struct vial_error *err);

/* Removes containers whose owner is dead and which are AGE_S seconds old, MAX at
 * most. *REMOVED may be NULL. One whose owner lives, or cannot be judged from
 * here, is left alone. */
int keep_sweep(const struct api *api, int64_t age_s, unsigned max, unsigned *removed,
               struct vial_error *err);

/* Kills and removes container ID. One that is gone already is success. */
int keep_remove(const struct api *api, const char *id, struct vial_error *err);

#endif
