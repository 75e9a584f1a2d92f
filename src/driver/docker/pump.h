/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_PUMP_H
#define VIAL_DRIVER_DOCKER_PUMP_H

/*
 * A thread between the engine's connection, where what the guest says is wrapped,
 * and a socket pair, which carries the plain stream that drivers promise. It lives
 * as long as the connection. It blocks every signal, and touches nothing but its
 * two descriptors.
 */

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

#endif
