/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_GATE_RULES_H
#define VIAL_PLAN_GATE_RULES_H

/*
 * What a vessel with a gate may reach: the request's `allow` and `deny`, within what
 * the operator's policy has under the same names. An entry is a rule (base/name_rule.h)
 * or the name of a list, a file of rules in share_dir/networks.
 */

#include "model/plan.h"
#include "settings/settings.h"

struct draft;

/* After the driver and the network are known. */
int gate_build(struct draft *d, struct vial_error *err);

/* ENTRIES as rules, if GATE, which a vessel was opened with, allows all of them. */
int gate_narrow(const struct settings *settings, const struct plan_gate *gate,
                const struct strv *entries, struct strv *out, struct vial_error *err);

/* Whether a plan that somebody else has built keeps to the policy: the keeper's word.
 */
int gate_judge(const struct plan *plan, const struct settings *settings,
               struct vial_error *err);

#endif
