/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_PROFILE_H
#define VIAL_DRIVER_NATIVE_PROFILE_H

/*
 * A seccomp profile as data (seccomp/NAME.yaml, format there) and its compiled
 * form: two BPF programs, of which the first allows and the second refuses by
 * argument. Compiling costs milliseconds, so the build does it; this code also
 * serves profiles that have not been compiled.
 */

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

#include "vial/error.h"

#define PROFILE_FILTERS 2

/* [a-z0-9-], 1 to 32 characters. */
bool profile_name_ok(const char *name);

/* Reads DIR/NAME.yaml and what it extends, into one object:
 * { "summary", "default", "rules": [ { "call", "action", "args" }… ] } */
int profile_read(const char *dir, const char *name, json_t **out,
                 struct vial_error *err);

/* Compiles a profile that profile_read made. Each blob is an array of struct
 * sock_filter for ARCH, "amd64" or "arm64"; NULL: this machine's. */
int profile_compile(json_t *profile, const char *arch, struct blob out[PROFILE_FILTERS],
                    struct vial_error *err);

/* Makes one program of both where that means the same, leaving the second empty: what
 * counts refused calls, and what puts a filter before this one, takes one alone. */
int profile_join(json_t *profile, struct blob filters[PROFILE_FILTERS],
                 struct vial_error *err);

/* How many calls are allowed, refused …: { "default", "allowed", "refused", … }. */
json_t *profile_summary(json_t *profile);

#endif
