/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_FIXES_H
#define VIAL_DRIVER_NATIVE_FIXES_H

/* Tells how to get a missing layer: exact commands, for this host. */

#include "driver/native/script.h"

#include "vial/error.h"

/* Both return -1, having added the remedy. */
int fixes_clone(int error, struct vial_error *err);
int fixes_step(const struct step *step, int error, struct vial_error *err);

/* Why this user cannot make user namespaces, and the fix; OUT sizes as in
 * struct layer. */
void fixes_user(int error, char reason[160], char fix[320]);

/* Whether a switch of this host forbids user namespaces. */
bool fixes_forbidden(void);

/* The fix for limits by cgroup. */
const char *fixes_cgroup(void);

#endif
