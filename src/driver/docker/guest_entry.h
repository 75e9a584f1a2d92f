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

#include <stdbool.h>
#include <sys/types.h>

#include "driver/docker/engine_api.h"

#include "vial/error.h"

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

/*
 * A socket of ours in a directory that is shown to a container, by which its guest
 * reaches us without the engine in between. The guest connects before any program runs;
 * then the socket is removed, and what is left inside is an empty directory. Engines on
 * other hosts, in virtual machines, or with walls of their own around containers have
 * no such thing: their guests speak over the attached streams.
 *
 *   guest_socket_open -> (create, start) -> guest_socket_take -> guest_socket_close
 */

struct guest_socket;

int guest_socket_open(struct guest_socket **out, struct vial_error *err);

#define GUEST_SOCKET_NAME "line"

/* The directory on this host; GUEST_SOCKET_NAME is in it. */
const char *guest_socket_dir(const struct guest_socket *l);

/* Waits for the guest to come by the line, or for the first byte (or the end) of
 * STREAM_FD, by which it comes otherwise. The connection, which becomes the caller's;
 * -1 when it came otherwise, or nobody else than PID may come (0: not known) and one
 * did. */
int guest_socket_take(struct guest_socket *l, int stream_fd, pid_t pid);

/* Nothing of it is left on this host. NULL is allowed. */
void guest_socket_close(struct guest_socket *l);

#endif
