/* SPDX-License-Identifier: Apache-2.0 */

/* Plans which volumes are shown inside. Whether they are there is their driver's to
 * find out: who plans for a daemon cannot see them. */

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "model/volume.h"
#include "plan/draft.h"
#include "plan/mount.h"
#include "volumes/volume_store.h"

static int refuse_driver(const struct draft *d, struct vial_error *err)
{
    if (!((d->req->own >> FIELD_ID_volumes) & 1u))
        return 0; /* it stands among the settings, for vessels that can have it */
    (void)fail(err, VIAL_E_UNSUPPORTED, "driver '%s' cannot give the program volumes",
               d->driver->name);
    return fail_remedy(err, str_eq(d->driver->name, "docker")
                                ? "use '--cache NAME:DIR', or '--driver native'"
                                : "use '--driver native', or leave them out");
}

static int check_twin(const struct plan *plan, const char *name, struct vial_error *err)
{
    for (size_t i = 0; i < plan->mount_count; i++)
        if (plan->mounts[i].volume && str_eq(plan->mounts[i].source, name))
            return fail(err, VIAL_E_VALUE, "volume '%s' is asked for twice", name);
    return 0;
}

static int add(struct draft *d, const char *text, struct vial_error *err)
{
    auto_volume_wish struct volume_wish wish = { 0 };
    struct plan *plan = d->plan;
    struct plan_mount *mount = &plan->mounts[plan->mount_count];

    if (volume_parse(text, &wish, err) < 0 || check_twin(plan, wish.name, err) < 0 ||
        volume_check_policy(&d->settings->policy, NULL, wish.name, wish.writable, err) <
            0 ||
        mount_check_target(plan, wish.target, err) < 0)
        return -1;
    *mount = (struct plan_mount){ .source = strdup(wish.name),
                                  .target = strdup(wish.target),
                                  .writable = wish.writable,
                                  .is_dir = true,
                                  .volume = true };
    plan->mount_count++;
    return mount->source && mount->target ? 0 : fail_memory(err);
}

static int find_store(struct draft *d, struct vial_error *err)
{
    d->plan->volume_store =
        volume_store_path(d->settings->volumes.store, d->settings->home);
    return d->plan->volume_store ? 0 : fail_memory(err);
}

int volumes_build(struct draft *d, struct vial_error *err)
{
    const struct strv *wanted = &d->req->volumes;

    if (wanted->count > 0 && !d->driver->roots)
        return refuse_driver(d, err);
    for (size_t i = 0; i < wanted->count; i++)
        if (add(d, wanted->items[i], err) < 0)
            return -1;
    return wanted->count > 0 ? find_store(d, err) : 0;
}

int volumes_judge(const struct plan *plan, const struct policy *policy,
                  struct vial_error *err)
{
    struct plan before = *plan;

    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct plan_mount *m = &plan->mounts[i];

        before.mount_count = i;
        if (!m->volume)
            continue;
        if (!str_eq(plan->driver, "native") || !volume_name_ok(m->source) ||
            !m->is_dir || m->overlay || m->hidden.count)
            return fail(err, VIAL_E_VALUE, "a volume in the plan is not one");
        if (check_twin(&before, m->source, err) < 0 ||
            volume_check_policy(policy, NULL, m->source, m->writable, err) < 0 ||
            mount_check_target(&before, m->target, err) < 0)
            return -1;
    }
    return 0;
}
