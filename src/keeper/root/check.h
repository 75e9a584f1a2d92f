/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_KEEPER_ROOT_CHECK_H
#define VIAL_KEEPER_ROOT_CHECK_H

#include "driver/driver.h"
#include "keeper/talk/rules.h"
#include "model/plan.h"

#include "vial/error.h"

/* Judges a plan from the front, which may be anyone's by now: DRIVER's own, every
 * limit in its range and below its cap, names that are names, and mounts that the
 * policy's roots cover. Root shows nothing of the host unless the policy names
 * roots: what "judged safe" means for one caller's eyes is too much for its. */
int check_plan(const struct rules *rules, const struct driver *driver,
               const struct plan *plan, struct vial_error *err);

/* How a zygote is started: a python, with the few variables that vial itself sets, and
 * modules that the launcher named. */
struct zygote_order {
    char *program;
    struct strv env, imports;
};
int check_zygote(const struct rules *rules, const struct zygote_order *order,
                 struct vial_error *err);
int check_zygote_plan(const struct plan *plan, struct vial_error *err);

/* Lower in everything, or as it was. */
int check_lower(const struct limits *now, const struct limits *wanted,
                struct vial_error *err);

/* Judges a vessel by what the policy requires of each. */
int check_vessel(const struct rules *rules, const struct vessel *vessel,
                 struct vial_error *err);

/* Whether a vessel's files may be saved under NAME: the policy lets it, and its owner
 * has not too many already. */
int check_snapshot(const struct rules *rules, const char *name, struct vial_error *err);

/* Whether the policy lets some caller read, or write to, volume NAME: what none may
 * write to none may make or remove either. */
int check_volume(const struct rules *rules, const char *name, bool writable,
                 struct vial_error *err);

#endif
