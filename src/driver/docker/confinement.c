/* SPDX-License-Identifier: Apache-2.0 */

#include "driver/native/confinement.h"

#include <sys/resource.h>

#include "base/fail.h"
#include "driver/docker/docker.h"
#include "driver/native/native.h"
#include "driver/native/seccomp.h"

static void add_layers(struct docker *d)
{
    static const char *const always[] = { "pid",     "mount",        "net",
                                          "ipc",     "uts",          "cgroup",
                                          "overlay", "no_new_privs", "caps" };

    for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
        strv_push(&d->vessel.layers, always[i]);
    if (d->vessel.jail.flags & JAIL_SECCOMP)
        strv_push(&d->vessel.layers, "seccomp");
    if (d->vessel.jail.flags & JAIL_LANDLOCK)
        strv_push(&d->vessel.layers, "landlock");
}

static int add_caches(struct jail *jail, const struct plan *plan)
{
    int rc = 0;

    for (size_t i = 0; i < plan->container.cache_count; i++)
        rc |= confine_path(jail, plan->container.caches[i].target,
                           JAIL_READ | JAIL_WRITE | JAIL_EXEC);
    return rc;
}

/* The engine has dropped ids and capabilities already; the guest sees to it that
 * each program is without them, and adds its filters and Landlock. */
int docker_jail(struct docker *d, const struct plan *plan, int guest_fd, unsigned uid,
                struct vial_error *err)
{
    struct jail *jail = &d->vessel.jail;
    struct confine_options o = { .landlock = native_landlock_abi() > 0 };

    if (confine_fill(jail, plan, &o, err) < 0 ||
        seccomp_fill(jail, guest_fd, plan->seccomp ? plan->seccomp : "default", plan,
                     err) < 0)
        return -1;
    if ((jail->flags & JAIL_LANDLOCK) && add_caches(jail, plan) < 0)
        return fail_memory(err);
    jail->flags &= ~(uint32_t)JAIL_SET_IDS;
    jail->uid = jail->gid = uid;
    if (plan->container.nproc && plan->limits.pids > 0) {
        jail->flags |= JAIL_OWN_USERS;
        confine_rlimit(jail, RLIMIT_NPROC, plan->limits.pids);
    }
    add_layers(d);
    return strv_ok(&d->vessel.layers) ? 0 : fail_memory(err);
}
