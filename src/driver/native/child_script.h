/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_CHILD_SCRIPT_H
#define VIAL_DRIVER_NATIVE_CHILD_SCRIPT_H

/*
 * The course of a vessel's child from its birth to the guest's exec, written as a
 * script while it already walks:
 *
 *   child_script_new -> child_script_begin -> (the child starts) -> child_script_root
 * -> (it is settled)
 *   -> child_script_rest -> (it joins its cgroups, and ends in the exec)
 */

#include <linux/sched.h>

#include "driver/native/cgroup.h"
#include "driver/native/launch.h"
#include "driver/native/script.h"
#include "model/plan.h"

/* The network namespace takes as long as the others and the mounts together: the
 * child's twin makes it meanwhile, or, where it can have none, the child itself, while
 * the parent gets ready. The cgroup namespace is made by the child as well, once it is
 * in its cgroup. */
#define CHILD_SCRIPT_SPACES CLONE_NEWNET

/* Empty, with room for PLAN; NULL without memory. */
struct script *child_script_new(const struct plan *plan);

/* Writes the steps that a child can take before it knows the rest. LEASH_FD -1:
 * none. */
void child_script_begin(struct script *s, const struct launch *l, int leash_fd);

/* The child becomes who the vessel's maps make it. */
void child_script_ids(struct script *s, bool has_users);

/* Up to the next word of ours, which comes when the rest is written. */
int child_script_root(struct script *s, const struct plan *plan, const struct launch *l,
                      struct vial_error *err);

/* While the child builds its root. */
int child_script_rest(struct script *s, const struct plan *plan, const struct cgroup *c,
                      const struct launch *l, struct vial_error *err);

#endif
