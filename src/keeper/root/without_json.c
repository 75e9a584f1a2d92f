/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instead of driver/native/describe.c: the keeper reads no YAML and writes no JSON.
 * Profiles are compiled when vial is built.
 */
#include "base/fail.h"
#include "driver/native/native.h"
#include "driver/native/seccomp.h"

int seccomp_compile(const char *dir, const char *name,
                    struct blob filters[PROFILE_FILTERS], struct vial_error *err)
{
    (void)filters;
    (void)fail(err, VIAL_E_VALUE, "seccomp profile '%s' is unknown, or not compiled",
               name);
    return fail_remedy(
        err, "the daemon takes profiles that have .bpf files in '%.150s'", dir);
}

int native_describe(const struct plan *plan, const char *share_dir, json_t *into,
                    struct vial_error *err)
{
    (void)plan;
    (void)share_dir;
    (void)into;
    return fail(err, VIAL_E_UNSUPPORTED, "the keeper describes nothing");
}
