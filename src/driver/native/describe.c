/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of this driver that reads profiles as YAML or says anything in JSON. The keeper
 * is linked without this file (keeper/root/keeper_native.c has its answers).
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/json.h"
#include "driver/native/native.h"
#include "driver/native/profile.h"
#include "driver/native/seccomp.h"

static int read_profile(const char *dir, const char *name, json_t **out,
                        struct vial_error *err)
{
    if (profile_read(dir, name, out, err) == 0)
        return 0;
    if (!err || err->sys != ENOENT)
        return -1;
    (void)fail(err, VIAL_E_VALUE, "seccomp profile '%s' is unknown", name);
    return fail_remedy(err, "profiles are the .yaml files in '%.200s'", dir);
}

int seccomp_compile(const char *dir, const char *name,
                    struct blob filters[PROFILE_FILTERS], struct vial_error *err)
{
    auto_json json_t *profile = NULL;

    if (read_profile(dir, name, &profile, err) < 0)
        return -1;
    if (profile_compile(profile, NULL, filters, err) < 0)
        return -1;
    return profile_join(profile, filters, err);
}

/* Tells for `vial plan` what profile NAME does. */
static int summarise(const char *share_dir, const char *name, json_t **out,
                     struct vial_error *err)
{
    auto_json json_t *profile = NULL;
    char dir[PATH_MAX];

    if (!profile_name_ok(name))
        return fail(err, VIAL_E_VALUE, "seccomp profile '%s' is not a name", name);
    (void)snprintf(dir, sizeof(dir), "%s/seccomp", share_dir);
    if (read_profile(dir, name, &profile, err) < 0)
        return -1;
    *out = profile_summary(profile);
    return *out ? 0 : fail_memory(err);
}

/* The profile's name means little by itself. */
int native_describe(const struct plan *plan, const char *share_dir, json_t *into,
                    struct vial_error *err)
{
    json_t *profile = NULL;

    if (summarise(share_dir, plan->seccomp ? plan->seccomp : "default", &profile, err) <
        0)
        return -1;
    return json_object_set_new(into, "seccomp_profile", profile) < 0 ? fail_memory(err)
                                                                     : 0;
}
