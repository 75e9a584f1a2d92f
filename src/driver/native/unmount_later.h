/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_UNMOUNT_LATER_H
#define VIAL_DRIVER_NATIVE_UNMOUNT_LATER_H

/*
 * When a vessel's last process is gone, its mounts are left. The process that lets go
 * of a mount namespace last takes the mounts down before it goes on. That takes longer
 * than the rest of a vessel's end, so it is left to a moment at which nobody waits.
 *
 *   unmount_later_take (while it lives) -> its processes end -> unmount_later_leave
 */

/* The mount namespace of the process that PIDFD names, or -1: it dies with it. */
int unmount_later_take(int pidfd);
/* Leaves it to the kernel's own time, and makes *FD -1. */
void unmount_later_leave(int *fd);

#endif
