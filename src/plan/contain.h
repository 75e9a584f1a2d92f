/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_CONTAIN_H
#define VIAL_PLAN_CONTAIN_H

#include "model/plan.h"
#include "model/policy.h"

#include "vial/error.h"

/* Judges what a plan that someone else built wants of a container engine, as if it had
 * been asked for here. A plan without an image may want nothing. */
int contain_judge(const struct plan *plan, const struct policy *policy,
                  struct vial_error *err);

#endif
