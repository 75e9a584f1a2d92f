/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_TWO_WAY_H
#define VIAL_BASE_TWO_WAY_H

/* Bytes both ways between two stream sockets, each way until its sender has no more. */

#include <stdbool.h>
#include <stddef.h>

struct two_way {
    int ends[2];       /* borrowed */
    int stop_fd;       /* readable: all of it ends; -1: none; borrowed */
    const void *first; /* bytes that had come from end 0 before; borrowed */
    size_t first_len;
    const void *back; /* the same, from end 1 */
    size_t back_len;
    void (*used)(void *context); /* bytes have passed; told once a second; or NULL */
    void *context;
};

/* Blocks until both ways have ended, one end is broken, or one way has ended and the
 * other is silent for a minute. It takes 128 KiB meanwhile, whatever the ends do. */
void two_way_run(const struct two_way *w);

#endif
