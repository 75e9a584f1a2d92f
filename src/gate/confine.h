/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_GATE_CONFINE_H
#define VIAL_GATE_CONFINE_H

/* How a program that faces the network gives up all that it does not need: ids, rights,
 * files, core dumps, and every system call but those that it names. */

#include <stdbool.h>
#include <stddef.h>

struct confinement {
    size_t descriptors; /* at most */
    const int *calls;   /* system calls */
    size_t count;
    bool connects; /* may have sockets of the internet's */
    bool pairs;    /* and pairs of our own */
};

/* What TLS takes once all files are read: no file, no program, no connection. */
extern const int confine_tls_calls[];
extern const size_t confine_tls_call_count;

/* 0, or -1: then nothing must go on. */
int confine_to(const struct confinement *to);

#endif
