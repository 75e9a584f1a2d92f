/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_PROBE_H
#define VIAL_DRIVER_NATIVE_PROBE_H

/* Tells how to get a missing layer: exact commands, for this host. */

#include "driver/native/script.h"
#include "driver/native/trial.h"

#include "vial/error.h"

/* Both return -1, having added the remedy. */
int fixes_clone(int error, struct vial_error *err);
int fixes_step(const struct step *step, int error, struct vial_error *err);

/* Whether a switch of this host forbids user namespaces. */
bool fixes_forbidden(void);

#endif
