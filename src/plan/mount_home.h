/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_MOUNT_HOME_H
#define VIAL_PLAN_MOUNT_HOME_H

/*
 * The caller's home directory, by HOME and by /etc/passwd. It is no one's to show:
 * it holds keys and, where it can be written, what the caller's next shell and the
 * next vial will read.
 */

#include <stdbool.h>

#include "vial/error.h"

/* Judges PATH, free of links. HOME as the environment has it, or NULL. */
int mount_home_check(const char *path, bool writable, const char *home,
                     struct vial_error *err);

/* Refuses PATH, which is to be writable, if OWN is it, or in it, or around it: what
 * vial itself believes lies there, such as what the caller trusts. */
int mount_home_check_state(const char *path, const char *own, struct vial_error *err);

#endif
