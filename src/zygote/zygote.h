/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_ZYGOTE_H
#define VIAL_ZYGOTE_ZYGOTE_H

/*
 * The native driver and the library inside a zygote talk over a socket that keeps
 * messages apart. The zygote is an interpreter that is as far as it gets before it
 * opens its program; there it waits:
 *
 *   driver: ZYGOTE_SETTINGS      -> zygote: ZYGOTE_UP
 *   driver: order with descriptors -> zygote: the child's order is under way
 *   child: over a socket of its own: ready, or why not
 *
 * The child is forked into the vessel that the order names, is confined there by
 * the guest's own code, and becomes the guest's child. It waits for its program.
 */

#include <stdint.h>

#define ZYGOTE_FD       3 /* the control socket, in the zygote */
#define ZYGOTE_LEASH_FD 4 /* a pipe whose other end is its owner's life */
#define ZYGOTE_PLACE_FD 5 /* a pidfd whose file system it starts in, or nothing */
#define ZYGOTE_MAX      (192u << 10) /* bytes of one message */
#define ZYGOTE_FDS      8
#define ZYGOTE_SAID     32 /* bytes by which one in its vessel says that it waits */

/* Descriptors of an order: the vessel's first process, the child's own socket,
 * then the cgroups to join. */
enum { ORDER_VESSEL, ORDER_SOCKET, ORDER_CGROUPS };

/* The child's report of itself: STEP 0 and its pid when it is ready, else which step
 * (wire/message.h, or one of these) failed, and the errno. */
struct zygote_report {
    uint32_t step, value;
};

enum {
    FORK_STEP_ENTER = 100,
    FORK_STEP_CGROUP,
    FORK_STEP_FORK,
    FORK_STEP_ADOPTED,
    FORK_STEP_ORDER
};

#endif
