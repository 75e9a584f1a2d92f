/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_DRAFT_H
#define VIAL_PLAN_DRAFT_H

/* A plan in the making, and the steps of plan_build, in their order. */

#include "model/language.h"
#include "model/plan.h"
#include "model/request.h"
#include "plan/build.h"
#include "settings/settings.h"

#include "vial/error.h"

struct draft {
    const struct vial_request *req;
    const struct settings *settings;
    const struct plan_driver *driver;
    const struct language *language; /* NULL for a plain command */
    struct plan *plan;
};

/* plan_program.c: workdir, cwd; the draft has its language. */
int plan_cwd_build(struct draft *d, struct vial_error *err);
/* Where the workspace lies inside, if there is one; judged when it is mounted. */
const char *plan_workspace_at(const struct draft *d);
/* plan_program.c: argv, compile_argv, env. */
int plan_program_build(struct draft *d, struct vial_error *err);
/* plan_files.c: the code, files, stdin and outputs. */
int plan_files_build(struct draft *d, struct vial_error *err);
/* plan_program.c: limits. */
int plan_limits_build(struct draft *d, struct vial_error *err);
/* mount.c: mounts and rootfs, judged. */
int mount_build(struct draft *d, struct vial_error *err);
/* Refuses a place inside that the vessel needs itself, or that overlaps a mount. */
int mount_check_target(const struct plan *plan, const char *target,
                       struct vial_error *err);
/* contain.c: what only container engines have; after the mounts. */
/* One more, read-only; there is room for it in the plan. */
int mount_add_shown(struct draft *d, const char *source, const char *target,
                    struct vial_error *err);
int contain_build(struct draft *d, struct vial_error *err);
/* labels.c: the labels that a preset wants and the request does not give; after the
 * mounts. */
int labels_build(struct draft *d, struct vial_error *err);

#endif
