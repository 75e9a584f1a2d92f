/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_GUEST_SOCKET_H
#define VIAL_DRIVER_DOCKER_GUEST_SOCKET_H

/*
 * A socket of ours in a directory that is shown to a container, by which its guest
 * reaches us without the engine in between. The guest connects before any program runs;
 * then the socket is removed, and what is left inside is an empty directory. Engines on
 * other hosts, in virtual machines, or with walls of their own around containers have
 * no such thing: their guests speak over the attached streams.
 *
 *   guest_socket_open -> (create, start) -> guest_socket_take -> guest_socket_close
 */

#include <stdbool.h>
#include <sys/types.h>

#include "vial/error.h"

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
