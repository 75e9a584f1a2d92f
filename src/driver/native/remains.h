/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_REMAINS_H
#define VIAL_DRIVER_NATIVE_REMAINS_H

/*
 * What is left of a vessel when its last process is gone: its mounts. Whoever lets go
 * of a mount namespace last takes its mounts down before going on, which takes longer
 * than the rest of a vessel's end; nobody waits for anything there.
 *
 *   remains_take (while it lives) -> its processes end -> remains_leave
 */

/* The mount namespace of the process that PIDFD names, or -1: it dies with it. */
int remains_take(int pidfd);
/* Leaves it to the kernel's own time, and makes *FD -1. */
void remains_leave(int *fd);

#endif
