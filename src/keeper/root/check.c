/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/root/check.h"

#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/path.h"
#include "driver/native/profile.h"
#include "images/snapshot_name.h"
#include "model/fields.h"
#include "model/value.h"
#include "model/volume.h"
#include "plan/contain.h"
#include "plan/gate_rules.h"
#include "plan/mount.h"

#define HOSTNAME_MAX 63

static int check_limit(const struct rules *rules, const struct limit_row *row,
                       int64_t value, struct vial_error *err)
{
    const struct field *f = &fields[row->field];
    int64_t cap = policy_cap(&rules->settings.policy, row->field);

    if (value == 0 && !row->needed &&
        !policy_implied(&rules->settings.policy, row->field))
        return 0; /* none of its kind */
    if (value == 0 && !row->needed)
        return fail(err, VIAL_E_CAP, "a limit that the policy caps is not in the plan");
    if (value < f->min || value > f->max)
        return fail(err, VIAL_E_VALUE, "%s is out of its range in the plan", f->name);
    if (value > cap)
        return fail(err, VIAL_E_CAP, "%s exceeds the policy's cap in the plan",
                    f->name);
    return 0;
}

/* Those that bound the host's memory, cores and processes are never left out. */
static int check_absent(const struct limits *l, struct vial_error *err)
{
    if (l->memory_bytes == 0 || l->pids == 0 || l->milli_cpus == 0)
        return fail(err, VIAL_E_CAP, "a limit that the policy caps is not in the plan");
    return 0;
}

static int check_limits(const struct rules *rules, const struct limits *l,
                        struct vial_error *err)
{
    for (size_t i = 0; i < LIMIT_COUNT; i++)
        if (check_limit(rules, &limit_rows[i], limits_get(l, &limit_rows[i]), err) < 0)
            return -1;
    return check_absent(l, err);
}

static bool is_plain(const char *text)
{
    return !text || value_is_plain(text, strlen(text));
}

static bool is_hostname(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return len > 0 && len <= HOSTNAME_MAX && name[len] == '\0';
}

/* One of ours, or what is shown there, which is judged by itself. */
static bool is_workdir(const struct plan *plan)
{
    for (size_t i = 0; i < plan->mount_count; i++)
        if (plan->mounts[i].is_dir && str_eq(plan->workdir, plan->mounts[i].target))
            return true;
    for (size_t i = 0; plan_workdirs[i]; i++)
        if (str_eq(plan->workdir, plan_workdirs[i]))
            return true;
    return false;
}

static int check_names(const struct plan *plan, struct vial_error *err)
{
    if (!is_workdir(plan))
        return fail(err, VIAL_E_VALUE, "the plan's workdir is not one");
    if (!is_hostname(plan->hostname))
        return fail(err, VIAL_E_VALUE, "the plan's hostname is not one");
    if (!profile_name_ok(plan->seccomp) || str_eq(plan->seccomp, PLAN_MACHINE_PROFILE))
        return fail(err, VIAL_E_VALUE, "the plan's seccomp profile is not a name");
    if (!is_plain(plan->image) || !is_plain(plan->language) ||
        !is_plain(plan->label_session) || !is_plain(plan->label_task) ||
        !is_plain(plan->correlation) || !is_plain(plan->id))
        return fail(err, VIAL_E_VALUE, "a name in the plan is not plain text");
    return 0;
}

static int check_lists(const struct rules *rules, const struct plan *plan,
                       struct vial_error *err)
{
    const struct policy *p = &rules->settings.policy;
    const char *network = plan_network_name(plan->network);

    if (policy_check_list(p, POLICY_ID_drivers, "driver", plan->driver, err) < 0 ||
        policy_check_list(p, POLICY_ID_networks, "network", network, err) < 0)
        return -1;
    if (!plan->image)
        return 0;
    return policy_check_list(p, POLICY_ID_images, "image", plan->image, err);
}

static int check_roots_said(const struct policy *p, struct vial_error *err)
{
    if (geteuid() != 0 || ((p->set >> POLICY_ID_mount_roots) & 1u))
        return 0;
    (void)fail(err, VIAL_E_MOUNT_OUTSIDE,
               "a daemon of root's mounts nothing unless the policy says from where");
    return fail_remedy(err, "set policy key 'mount_roots' in /etc/vial/vial.yaml, and "
                            "restart the daemon");
}

static int check_volumes_said(const struct policy *p, struct vial_error *err)
{
    if (geteuid() != 0 || ((p->set >> POLICY_ID_volumes) & 1u))
        return 0;
    (void)fail(err, VIAL_E_POLICY,
               "a daemon of root's has volumes only if the policy says so");
    return fail_remedy(err, "set policy key 'volumes' in /etc/vial/vial.yaml, and "
                            "restart the daemon");
}

static size_t count_volumes(const struct plan *plan)
{
    size_t count = 0;

    for (size_t i = 0; i < plan->mount_count; i++)
        count += plan->mounts[i].volume;
    return count;
}

static int check_mounts(const struct rules *rules, const struct plan *plan,
                        struct vial_error *err)
{
    const struct policy *p = &rules->settings.policy;
    size_t volumes = count_volumes(plan);
    int rc = 0;

    if (volumes > 0 && check_volumes_said(p, err) < 0)
        return -1;
    if (plan->mount_count > volumes || plan->rootfs)
        rc = check_roots_said(p, err);
    return rc < 0 ? -1 : mount_judge(plan, &rules->settings, err);
}

/* Whatever the front says, an image comes from the operator's store, and a wall is
 * given up where the policy lets it. */
static int check_root(const struct rules *rules, const struct driver *driver,
                      const struct plan *plan, struct vial_error *err)
{
    const struct plan_root *root = &plan->root;
    const struct policy *p = &rules->settings.policy;
    bool asks = root->writable || root->as_root || root->sudo;

    if (driver->wants_image != (plan->image != NULL) &&
        !(driver->takes_image && plan_has_root(plan)))
        return fail(err, VIAL_E_VALUE, "the plan's image does not fit its driver");
    if (!plan_has_root(plan))
        return asks ? fail(err, VIAL_E_VALUE, "the plan has no root to write to") : 0;
    if (!driver->takes_image || !plan->image || plan->rootfs ||
        !str_eq(root->store, rules->store))
        return fail(err, VIAL_E_VALUE, "the plan's image is not of the store");
    if ((root->as_root || root->sudo) && !root->writable)
        return fail(err, VIAL_E_VALUE, "the plan has no root to write to");
    if ((root->writable &&
         policy_check_list(p, POLICY_ID_privileges, "privilege", "rw", err) < 0) ||
        (root->as_root &&
         policy_check_list(p, POLICY_ID_privileges, "privilege", "root", err) < 0))
        return -1;
    return root->sudo
               ? policy_check_list(p, POLICY_ID_privileges, "privilege", "sudo", err)
               : 0;
}

int check_plan(const struct rules *rules, const struct driver *driver,
               const struct plan *plan, struct vial_error *err)
{
    if (!str_eq(plan->driver, driver->name))
        return fail(err, VIAL_E_DRIVER, "this keeper opens vessels of '%s' only",
                    driver->name);
    if (check_root(rules, driver, plan, err) < 0 ||
        (plan->fixed_addresses &&
         policy_check_list(&rules->settings.policy, POLICY_ID_privileges, "privilege",
                           "addresses", err) < 0))
        return -1;
    if (check_names(plan, err) < 0 || check_lists(rules, plan, err) < 0 ||
        check_limits(rules, &plan->limits, err) < 0 ||
        gate_judge(plan, &rules->settings, err) < 0 ||
        contain_judge(plan, &rules->settings.policy, err) < 0)
        return -1;
    return check_mounts(rules, plan, err);
}

/* "python3" or "python3.11". */
static bool is_python(const char *program)
{
    const char *rest = program + strlen("python3");

    return str_starts(program, "python3") &&
           (!*rest || (rest[0] == '.' && rest[1] &&
                       strspn(rest + 1, "0123456789") == strlen(rest + 1)));
}

/* Whether a variable can name no file to load. */
static bool is_harmless(const char *entry)
{
    static const char *const names[] = { "LANG",
                                         "LC_ALL",
                                         "TMPDIR",
                                         "USER",
                                         "LOGNAME",
                                         "SHELL",
                                         "TERM",
                                         "TZ",
                                         "PYTHONDONTWRITEBYTECODE",
                                         "PYTHONIOENCODING",
                                         "PYTHONUNBUFFERED",
                                         "PYTHONHASHSEED",
                                         "PYTHONUTF8",
                                         "MPLBACKEND" };
    size_t len = strcspn(entry, "=");

    for (size_t i = 0; entry[len] && i < sizeof(names) / sizeof(*names); i++)
        if (strlen(names[i]) == len && strncmp(names[i], entry, len) == 0)
            return true;
    /* In any other home there may be modules that python loads by itself. */
    return str_eq(entry, "PATH=" PATH_SEARCH) || str_eq(entry, "HOME={dir}") ||
           str_eq(entry, "HOME=/tmp");
}

int check_zygote(const struct rules *rules, const struct zygote_order *order,
                 struct vial_error *err)
{
    if (!is_python(order->program))
        return fail(err, VIAL_E_VALUE, "a zygote's program is not a python");
    for (size_t i = 0; i < order->env.count; i++)
        if (!is_harmless(order->env.items[i]))
            return fail(err, VIAL_E_VALUE,
                        "a zygote's environment has more than vial's");
    for (size_t i = 0; i < order->imports.count; i++)
        if (!strv_has(&rules->imports, order->imports.items[i]))
            return fail(err, VIAL_E_POLICY, "a zygote may not import that");
    return 0;
}

/* A zygote is not confined yet: what it loads must be the host's own. */
int check_zygote_plan(const struct plan *plan, struct vial_error *err)
{
    if (plan->mount_count > 0 || plan->rootfs || plan_has_root(plan))
        return fail(err, VIAL_E_VALUE, "a zygote's plan has mounts or a rootfs");
    return 0;
}

int check_lower(const struct limits *now, const struct limits *wanted,
                struct vial_error *err)
{
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        int64_t old = limits_get(now, &limit_rows[i]);
        int64_t value = limits_get(wanted, &limit_rows[i]);

        if (old != 0 && (value == 0 || value > old))
            return fail(err, VIAL_E_CAP, "a vessel's limits can only be lowered");
    }
    return 0;
}

int check_vessel(const struct rules *rules, const struct vessel *vessel,
                 struct vial_error *err)
{
    return driver_check_required(&rules->settings.policy.require, vessel->level,
                                 &vessel->layers, vessel->limits_by, err);
}

/* Whatever the front says, it takes no name that an operator gave an image. */
int check_snapshot(const struct rules *rules, const char *name, struct vial_error *err)
{
    if (!snapshot_name_ok(name))
        return fail(err, VIAL_E_VALUE, "that is no snapshot's name");
    if (policy_check_list(&rules->settings.policy, POLICY_ID_snapshots, "snapshot",
                          snapshot_name_forks(name) ? "fork" : "save", err) < 0)
        return -1;
    if (!rules->store)
        return fail(err, VIAL_E_FILE, "there is no place for images");
    return snapshot_name_count(rules->store, name, err);
}

int check_volume(const struct rules *rules, const char *name, bool writable,
                 struct vial_error *err)
{
    const struct policy *p = &rules->settings.policy;

    if (!volume_name_ok(name))
        return fail(err, VIAL_E_VALUE, "that is no volume's name");
    if (check_volumes_said(p, err) < 0 ||
        volume_check_policy(p, NULL, name, writable, err) < 0)
        return -1;
    return rules->volumes ? 0 : fail(err, VIAL_E_FILE, "there is no place for volumes");
}
