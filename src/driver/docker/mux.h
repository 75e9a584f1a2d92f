/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_DOCKER_MUX_H
#define VIAL_DRIVER_DOCKER_MUX_H

/*
 * Without a terminal the engine wraps what the container writes: a byte that says
 * which stream, three of nothing, and a big-endian length before each piece. This
 * takes the wrapping off, in place; pure.
 */

#include "driver/pump.h"

struct mux {
    uint8_t head[8];
    size_t head_len;
    uint32_t left; /* bytes of the present piece still to come */
};

/* Leaves only stdout's bytes at the beginning of DATA. Returns how many these
 * are, or -1 when the wrapping makes no sense. */
ssize_t mux_strip(struct mux *m, uint8_t *data, size_t len);

/* The same for a pump, whose STATE is a struct mux. */
extern const struct pump_code mux_code;

#endif
