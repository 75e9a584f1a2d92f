/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_HOME_H
#define VIAL_MODEL_HOME_H

/*
 * The caller's home directory, by HOME and by /etc/passwd. It is no one's to show:
 * it holds keys and, where it can be written, what the caller's next shell and the
 * next vial will read.
 */

#include <stdbool.h>

#include "vial/error.h"

/* Judges PATH, free of links. HOME as the environment has it, or NULL. */
int home_check(const char *path, bool writable, const char *home,
               struct vial_error *err);

#endif
