/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_LINE_H
#define VIAL_DRIVER_DOCKER_LINE_H

/*
 * A socket of ours in a directory that is shown to a container, by which its guest
 * reaches us without the engine in between. The guest connects before any program runs;
 * then the socket is removed, and what is left inside is an empty directory. Engines on
 * other hosts, in virtual machines, or with walls of their own around containers have
 * no such thing: their guests speak over the attached streams.
 *
 *   line_open -> (create, start) -> line_take -> line_close
 */

#include <stdbool.h>
#include <sys/types.h>

#include "vial/error.h"

struct line;

int line_open(struct line **out, struct vial_error *err);

#define LINE_NAME "line"

/* The directory on this host; LINE_NAME is in it. */
const char *line_dir(const struct line *l);

/* Waits for the guest to come by the line, or for the first byte (or the end) of
 * STREAM_FD, by which it comes otherwise. The connection, which becomes the caller's;
 * -1 when it came otherwise, or nobody else than PID may come (0: not known) and one
 * did. */
int line_take(struct line *l, int stream_fd, pid_t pid);

/* Nothing of it is left on this host. NULL is allowed. */
void line_close(struct line *l);

#endif
