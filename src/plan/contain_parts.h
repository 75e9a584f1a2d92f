/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_CONTAIN_PARTS_H
#define VIAL_PLAN_CONTAIN_PARTS_H

/* Shared by the files of contain.h. */

#include "plan/draft.h"

/* A name as engines take them. ':' is not among its letters, so that no name can mean
 * another container's network. */
bool contain_is_name(const char *text);
bool contain_is_address(const char *text);
int contain_refuse(enum field_id id, const char *text, const char *what,
                   struct vial_error *err);
/* "WHAT in the plan is not one": of a plan that someone else built. */
int contain_odd(const char *what, struct vial_error *err);
/* TEXT may be NULL. */
int contain_copy(char **out, const char *text, struct vial_error *err);

/* contain_parts.c */
int ports_build(struct draft *d, struct vial_error *err);
int ports_judge(const struct plan_container *c, const struct policy *policy,
                struct vial_error *err);

/* The same for those that a vessel's gate publishes. */
int gated_ports_build(struct draft *d, struct vial_error *err);
int gated_ports_judge(const struct plan_container *c, const struct policy *policy,
                      struct vial_error *err);

int caches_build(struct draft *d, struct vial_error *err);
int caches_judge(const struct plan *plan, const struct policy *policy,
                 struct vial_error *err);

#endif
