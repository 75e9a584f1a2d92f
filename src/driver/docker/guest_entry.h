/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_GUEST_ENTRY_H
#define VIAL_DRIVER_DOCKER_GUEST_ENTRY_H

/*
 * How the guest gets into a container, from best to last:
 *
 *   bind   its file is shown inside, read-only; the engine must be on this host
 *   copy   it is put into a volume of the container's own before that starts
 *   exec   the image's shell writes it into /tmp, and the engine's exec starts it
 *
 * All of them end in a stream to the same guest, so that everything else is the same.
 */

#include "driver/docker/engine_api.h"

enum guest_entry { ENTRY_BIND, ENTRY_COPY, ENTRY_EXEC, ENTRY_COUNT_ };

/* The best that may work, or what VIAL_TEST_PLACE names. *ONLY: no other may be
 * tried. */
int guest_entry_choose(const struct api *api, enum guest_entry *out, bool *only,
                       struct vial_error *err);

/* WHY CREATE failed because of how the guest was to be placed. */
bool guest_entry_is_refused(const struct vial_error *why);

/* Puts the guest into container ID, which was created for ENTRY_COPY. */
int guest_entry_copy(const struct api *api, const char *id, int guest_fd,
                     struct vial_error *err);

/* A running container, and who runs things in it: "uid:gid". */
struct guest_entry_in {
    const struct api *api;
    const char *id, *user;
};

/* Starts the guest there. *FD is its stream, wrapped; EARLY came over it already. */
int guest_entry_exec(const struct guest_entry_in *in, int guest_fd, int *fd,
                     struct str *early, struct vial_error *err);

#endif
