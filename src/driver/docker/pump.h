/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_PUMP_H
#define VIAL_DRIVER_DOCKER_PUMP_H

/*
 * A thread between the engine's connection, where what the guest says is wrapped,
 * and a socket pair, which carries the plain stream that drivers promise. It lives
 * as long as the connection. It blocks every signal, and touches nothing but its
 * two descriptors.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

#include "vial/error.h"

struct pump;

/* Takes ENGINE_FD, whatever this returns. EARLY came over it already. *STREAM_FD
 * is a non-blocking socket, the caller's. */
int pump_start(int engine_fd, const struct str *early, struct pump **out,
               int *stream_fd, struct vial_error *err);

/* Hangs up on the engine, waits for the thread, which ends at once, and frees.
 * NULL is allowed. */
void pump_stop(struct pump *p);

/*
 * Without a terminal the engine wraps what the container writes: a byte that says
 * which stream, three of nothing, and a big-endian length before each piece. This
 * takes the wrapping off, in place; pure.
 */

struct mux {
    uint8_t head[8];
    size_t head_len;
    uint32_t left; /* bytes of the present piece still to come */
};

/* Leaves only stdout's bytes at the beginning of DATA. Returns how many these
 * are, or -1 when the wrapping makes no sense. */
ssize_t mux_strip(struct mux *m, uint8_t *data, size_t len);

#endif
