/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_PROCESS_PROCESS_H
#define VIAL_DRIVER_PROCESS_PROCESS_H

/*
 * The guest as a plain child: same user, a temporary directory, time-out and
 * output limits, and nothing else. For machines where nothing better exists;
 * every result says level "none", and it is never chosen unless named.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "driver/driver.h"

/* Starts GUEST_FD with STREAM_FD as its descriptor 3 and nothing else
 * open. Sets *PID and *PIDFD. Safe in a process with threads. */
int spawn_guest(int guest_fd, int stream_fd, pid_t *pid, int *pidfd,
                struct vial_error *err);

#endif
