/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_H
#define VIAL_PLAN_H

/*
 * A plan tells what a run would do, as values; vial_plan gives the same as JSON, for
 * people.
 */

#include "vial/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Read-only. Lists end with NULL; an empty one is NULL. In COMPILE, and in what vial
 * itself put into ARGV and ENV, "{dir}" stands for the working directory, which is
 * known only once there is a vessel, and the word "{code}" for the program's text. */
struct vial_plan {
    const char *id;             /* "r-…" */
    const char *driver;         /* a driver's name; never "auto" */
    const char *language;       /* NULL: a plain command */
    const char *const *compile; /* NULL: nothing is compiled */
    const char *const *argv;
    const char *const *env; /* "NAME=VALUE", complete: nothing is inherited */
    const char *workdir;    /* where the vessel has its working directory */
    const char *cwd;        /* where the program starts */
    const char *file;    /* the program's text is put there, below workdir; or NULL */
    const char *image;   /* NULL: the driver has none */
    const char *seccomp; /* name of the profile */
    const char *seccomp_file; /* the language's own before that one, or NULL */
};

/* Resolves REQ. Opens nothing. *OUT is given back with vial_plan_free. */
VIAL_API VIAL_MUST_CHECK int vial_plan_new(struct vial_engine *engine,
                                           const struct vial_request *req,
                                           struct vial_plan **out,
                                           struct vial_error *err);

/* A limit by the request field that sets it: "timeout" in milliseconds, "memory" in
 * bytes, "cpus" in thousandths, "pids" …. 0: none, or there is no such limit. */
VIAL_API int64_t vial_plan_limit(const struct vial_plan *plan, const char *field);

/* NULL is allowed. */
VIAL_API void vial_plan_free(struct vial_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
