/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_PUMP_H
#define VIAL_DRIVER_PUMP_H

/*
 * A thread between a server's connection, where what the guest says is wrapped, and a
 * socket pair, which carries the plain stream that drivers promise. It lives as long as
 * the connection. It blocks every signal, and touches nothing but its two descriptors
 * and the state of its code.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

#include "vial/error.h"

#define PUMP_ROOM 16 /* bytes before what is wrapped */

/* How the server wraps. STATE is the caller's, and outlives the pump. */
struct pump_code {
    /* Leaves only the guest's bytes at the beginning of DATA, and returns how many
     * these are; -1: it makes no sense, or was the end. */
    ssize_t (*strip)(void *state, uint8_t *data, size_t len);
    /* Wraps LEN bytes at DATA in place, with a head that ends before them, PUMP_ROOM
     * bytes at most; its length. NULL: they go as they are. */
    size_t (*wrap)(void *state, uint8_t *data, size_t len);
    /* Puts into OUT, of PUMP_CONTROL bytes, what is to be said to the server itself
     * now: IDLE, or for what it said. 0: nothing. NULL: never anything. */
    size_t (*control)(void *state, bool idle, uint8_t *out);
    int idle_ms; /* how long nothing was said: IDLE; -1: never */
};
#define PUMP_CONTROL 256

struct pump;

/* Takes SERVER_FD, whatever this returns. EARLY came over it already. *STREAM_FD
 * is a non-blocking socket, the caller's. */
int pump_start(int server_fd, const struct str *early, const struct pump_code *code,
               void *state, struct pump **out, int *stream_fd, struct vial_error *err);

/* Hangs up on the server: what came of it still goes to the stream, which ends. NULL is
 * allowed. */
void pump_hang_up(struct pump *p);

/* The same; waits for the thread, which ends at once, and frees. NULL is allowed. */
void pump_stop(struct pump *p);

#endif
