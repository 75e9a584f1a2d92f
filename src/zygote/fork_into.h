/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ZYGOTE_FORK_INTO_H
#define VIAL_ZYGOTE_FORK_INTO_H

/*
 * From the zygote to a process that the vessel's guest owns:
 *
 *   zygote -> carrier (in the zygote's memory) enters the vessel's namespaces
 *          -> pioneer (likewise) is the first inside them
 *          -> child (a fork), which loses its parent at once, and so becomes the
 *             guest's
 *
 * A process changes its pid namespace only by birth, and goes to a namespace's
 * first process only when its parent died in there: hence two in between.
 */

#include <stddef.h>
#include <stdint.h>

#include "zygote/memory.h"

struct order {
    const uint8_t *jail; /* packed, as the guest gets it */
    size_t jail_len;
    const int *fds;
    size_t fd_count;
    const struct pages *pages; /* that the child will need */
};

/* Returns 0 in the child, confined and with its socket as descriptor 3, and 1 in
 * the zygote. What goes wrong in between is said on the child's socket. */
int fork_into_vessel(const struct order *order);
/* The child has nothing left to do but wait, and says so. */
void fork_into_ready(void);

#endif
