/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_SECCOMP_H
#define VIAL_DRIVER_NATIVE_SECCOMP_H

/* Profiles lie in the directory "seccomp" beside the guest program. */

#include <jansson.h>

#include "driver/native/profile.h"
#include "model/plan.h"
#include "wire/message.h"

#include "vial/error.h"

/* Loads profile NAME into JAIL's filters: NAME.bpf, or, when that is absent,
 * NAME.yaml compiled here; before it the file that PLAN names, if any. */
int seccomp_fill(struct jail *jail, int guest_fd, const char *name,
                 const struct plan *plan, struct vial_error *err);

/* Where profiles lie. OUT holds PATH_MAX bytes. */
int seccomp_find_dir(int guest_fd, char *out, struct vial_error *err);

/* The filters of profile NAME in DIR, in the order of loading. */
int seccomp_read(const char *dir, const char *name,
                 struct blob filters[PROFILE_FILTERS], struct vial_error *err);

/* describe.c: DIR/NAME.yaml, compiled now. */
int seccomp_compile(const char *dir, const char *name,
                    struct blob filters[PROFILE_FILTERS], struct vial_error *err);

#endif
