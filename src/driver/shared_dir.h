/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_SHARED_DIR_H
#define VIAL_DRIVER_SHARED_DIR_H

#include "base/str.h"

#include "vial/error.h"

/* Makes the directories of a preset, which its programs write to, or judges those that
 * are there. One may lie in /tmp, where others could have put something of that name:
 * it has to be the caller's own, or root's and as open as /tmp. What root makes is open
 * to all, as the program in a container is never root; what a program of one driver
 * writes there, those of another can write too. */
int shared_dirs_make(const struct strv *paths, struct vial_error *err);

#endif
