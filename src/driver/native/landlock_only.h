/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_LANDLOCK_ONLY_H
#define VIAL_DRIVER_NATIVE_LANDLOCK_ONLY_H

/*
 * The tier below namespaces, for hosts that allow none: a plain child in a
 * temporary directory (driver/process), whose programs are held by Landlock,
 * seccomp without any network, no_new_privs and resource limits. Its level is
 * "landlock"; what a host process shows to everyone (its command line, say) is
 * seen from inside.
 */

#include "driver/driver.h"

int landlock_only_open(const struct plan *plan, int guest_fd, struct vessel **out,
                       struct vial_error *err);

#endif
