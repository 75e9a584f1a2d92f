/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_MEMBERSHIP_H
#define VIAL_BASE_MEMBERSHIP_H

/* Which cgroup a process is in, as the kernel's /proc/PID/cgroup tells it. */

#include <stddef.h>

/* The path behind CONTROLLER ("": version 2) in TEXT; 0, or -1: it is not there, or too
 * long. */
int membership_path(const char *text, const char *controller, char *out, size_t size);

#endif
