/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_SECRET_RULES_H
#define VIAL_PLAN_SECRET_RULES_H

/*
 * Which secrets (model/secret.h) a vessel's gate puts into headers: those that the
 * request names and the settings define, as far as the policy has them; or, for a
 * caller who is the operator, those that the request itself defines.
 */

#include "model/plan.h"
#include "settings/settings.h"

struct draft;

/* Where the vessel's authority lies inside: alone, and behind the host's own. */
#define SECRET_CA     "/etc/vial/ca.pem"
#define SECRET_BUNDLE "/etc/ssl/certs/ca-certificates.crt"

/* The lines of the plan's gate; a secret's hosts are added to its `allow`. */
int secrets_build(struct draft *d, struct vial_error *err);

/* Appends what tells programs of the authority; then the placeholders. */
void secrets_trust_env(const struct plan *plan, struct strv *env);
int secrets_env(const struct draft *d, struct strv *env, struct vial_error *err);

/* The keeper's word: every secret of the plan is one of the settings', unchanged. */
int secrets_judge(const struct plan *plan, const struct settings *settings,
                  struct vial_error *err);

#endif
