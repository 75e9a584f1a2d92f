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

/* image_root.c: the root that an image becomes; the draft has its image. */
int image_root_build(struct draft *d, struct vial_error *err);
/* plan_program.c: workdir, cwd; the draft has its language. */
int plan_cwd_build(struct draft *d, struct vial_error *err);
/* Where the workspace lies inside, if there is one; judged when it is mounted. */
const char *plan_workspace_at(const struct draft *d);
/* The code's file, below the workdir; the draft has its language. */
const char *plan_source_name(const struct draft *d);

/* The program is the image's ENTRYPOINT, with the command behind it. */
bool plan_wants_entrypoint(const struct vial_request *req);
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
/* plan_volumes.c: volumes, by name; of mount_build. */
int volumes_build(struct draft *d, struct vial_error *err);
/* mount.c: the caller's own Python packages, where a preset promises them. */
int packages_build(struct draft *d, struct vial_error *err);
/* venv.c: a Python environment of the host's, and its interpreter; after the mounts. */
int venv_build(struct draft *d, struct vial_error *err);
/* language_cache.c: what the language's compiler kept; after the mounts. */
int language_cache_build(struct draft *d, struct vial_error *err);
/* Shows SOURCE of the host's at TARGET, if it may be shown. PACKAGES as in the terms of
 * a source. */
int mount_show(struct draft *d, const char *source, const char *target, bool packages,
               struct vial_error *err);
/* contain.c: what only container engines have; after the mounts. */
int contain_build(struct draft *d, struct vial_error *err);
/* labels.c: the labels that a preset wants and the request does not give; after the
 * mounts. */
int labels_build(struct draft *d, struct vial_error *err);

#endif
