/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/packages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "model/field_type.h"
#include "plan/mount.h"
#include "settings/user_packages.h"

#define BASE "/opt/own" /* what PYTHONUSERBASE is inside */

/* Room for one more. */
static int add_mount(struct draft *d, const char *source, struct vial_error *err)
{
    struct plan *plan = d->plan;
    const char *name = strstr(source, "/lib/" USER_PACKAGES_VERSION);
    struct plan_mount *grown =
        reallocarray(plan->mounts, plan->mount_count + 1, sizeof(*grown));
    struct vial_error why = { 0 };
    auto_str struct str target = { 0 };

    if (!grown)
        return fail_memory(err);
    plan->mounts = grown;
    while (name && strstr(name + 1,
                          "/lib/" USER_PACKAGES_VERSION)) /* the last one is its own */
        name = strstr(name + 1, "/lib/" USER_PACKAGES_VERSION);
    str_printf(&target, BASE "%s", name ? name : "");
    if (!str_ok(&target))
        return fail_memory(err);
    (void)mount_add_shown(d, source, target.data, &why);
    return 0;
}

int packages_build(struct draft *d, struct vial_error *err)
{
    const struct strv *found = &d->settings->packages;
    struct plan *plan = d->plan;
    size_t before = plan->mount_count;

    if (!d->language || !str_starts(d->language->name, "python") || plan->rootfs ||
        strcmp(d->driver->name, "native") != 0)
        return 0;
    for (size_t i = 0; i < plan->env.count; i++)
        if (str_starts(plan->env.items[i], "PYTHONUSERBASE="))
            return 0; /* the caller has other plans */
    for (size_t i = 0; i < found->count; i++)
        if (add_mount(d, found->items[i], err) < 0)
            return -1;
    if (plan->mount_count == before)
        return 0;
    return field_put_env(&plan->env, "PYTHONUSERBASE", strlen("PYTHONUSERBASE"), BASE) <
                   0
               ? fail_memory(err)
               : 0;
}
