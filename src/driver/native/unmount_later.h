/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_UNMOUNT_LATER_H
#define VIAL_DRIVER_NATIVE_UNMOUNT_LATER_H

/*
 * What is left of a vessel when its last process is gone: its mounts. Whoever lets go
 * of a mount namespace last takes its mounts down before going on, which takes longer
 * than the rest of a vessel's end; nobody waits for anything there.
 *
 *   unmount_later_take (while it lives) -> its processes end -> unmount_later_leave
 */

/* The mount namespace of the process that PIDFD names, or -1: it dies with it. */
int unmount_later_take(int pidfd);
/* Leaves it to the kernel's own time, and makes *FD -1. */
void unmount_later_leave(int *fd);

#endif
