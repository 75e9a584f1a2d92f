/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a language's compiler keeps for the next time, made once by
 * `vial languages --prepare` and shown read-only from then on. It lies in a directory
 * of the caller's that nobody else can write.
 */

#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/state.h"
#include "model/field_type.h"
#include "plan/draft.h"

#define SHOWN_AT "/opt/cache"

static bool is_given(const struct draft *d, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < d->req->env.count; i++)
        if (strncmp(d->req->env.items[i], name, len) == 0 &&
            d->req->env.items[i][len] == '=')
            return true;
    return false;
}

int language_cache_build(struct draft *d, struct vial_error *err)
{
    const char *name = d->language ? d->language->cache_env : NULL;
    struct vial_error ignored = { 0 };
    auto_free char *all = NULL;
    auto_free char *path = NULL;
    auto_fd int fd = -1;

    if (!name || !str_eq(d->driver->name, "native") || d->plan->rootfs ||
        plan_has_root(d->plan) || d->settings->serves || is_given(d, name))
        return 0;
    all = state_cache_path(d->settings->home);
    path = all ? path_join(all, d->language->name) : NULL;
    fd = path ? state_open(all, d->language->name, false, &ignored) : -1;
    /* It only saves time: what may not be shown is done without. */
    if (fd < 0 || faccessat(fd, LANGUAGE_CACHE_WHOLE, F_OK, 0) < 0 ||
        mount_show(d, path, SHOWN_AT, true, &ignored) < 0)
        return 0;
    return field_put_env(&d->plan->env, name, strlen(name), SHOWN_AT) < 0
               ? fail_memory(err)
               : 0;
}
