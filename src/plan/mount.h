/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_MOUNT_H
#define VIAL_PLAN_MOUNT_H

#include "model/plan.h"
#include "settings/settings.h"

#include "vial/error.h"

/* Judges the mounts and the root of a plan that someone else built, as if they had
 * been asked for here and now: targets, sources, and that each is the object that
 * PLAN names. Of SETTINGS only policy and home are used. */
int mount_judge(const struct plan *plan, const struct settings *settings,
                struct vial_error *err);

/* plan_volumes.c: the same of its volumes alone. */
int volumes_judge(const struct plan *plan, const struct policy *policy,
                  struct vial_error *err);

#endif
