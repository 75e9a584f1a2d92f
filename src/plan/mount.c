/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Plans which files of the host are shown inside, and where: mounts, the workspace, a
 * root. Sources are judged in mount_source.c.
 */

#include "plan/mount.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "model/field_type.h"
#include "model/value.h"
#include "plan/draft.h"
#include "plan/mount_source.h"
#include "settings/user_packages.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BASE         "/opt/own" /* what PYTHONUSERBASE is inside */

/* The characters of a workspace's target: nothing that a mount's options could take for
 * more than a name. */
#define WORKSPACE_LETTERS                                                              \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"

/* Inside: what vial itself puts there. */
static const char *const taken_targets[] = {
    "/proc",    "/sys",     "/dev",   "/usr",        "/bin",        "/sbin",
    "/etc",     "/run",     "/boot",  "/work",       "/var/none",   "/var/empty",
    "/var/tmp", "/var/run", "/.vial", "/.vial-init", "/.vial-line", "/tmp/.vial-init"
};

static int refuse_target(const char *target, const char *why, struct vial_error *err)
{
    (void)fail(err, VIAL_E_MOUNT, "mount target '%s' %s", target, why);
    return fail_remedy(err, "choose a directory of its own, such as /data");
}

static int judge_target(const char *target, struct vial_error *err)
{
    size_t len = strlen(target);

    if (!path_is_clean_absolute(target) || len >= 4096 || target[len - 1] == '/' ||
        !value_is_plain(target, len))
        return refuse_target(target, "is not a clean absolute path", err);
    /* Neither below nor above: what lies there must be ours to the end. */
    for (size_t i = 0; i < COUNT(taken_targets); i++)
        if (path_is_beneath(target, taken_targets[i]) ||
            path_is_beneath(taken_targets[i], target))
            return refuse_target(target, "is taken by the vessel itself", err);
    if (str_starts(target, "/lib") || str_eq(target, "/tmp"))
        return refuse_target(target, "is taken by the vessel itself", err);
    return 0;
}

static int check_apart(const struct plan *plan, const char *target,
                       struct vial_error *err)
{
    for (size_t i = 0; i < plan->mount_count; i++) {
        const char *other = plan->mounts[i].target;

        if (path_is_beneath(target, other) || path_is_beneath(other, target))
            return fail(err, VIAL_E_MOUNT, "mount targets '%s' and '%s' overlap", other,
                        target);
    }
    return 0;
}

int mount_check_target(const struct plan *plan, const char *target,
                       struct vial_error *err)
{
    if (judge_target(target, err) < 0)
        return -1;
    if (!str_eq(target, plan_scratch(plan)) &&
        path_is_beneath(target, plan_scratch(plan)))
        return refuse_target(target, "is taken by the vessel itself", err);
    return check_apart(plan, target, err);
}

static int add_mount(struct draft *d, const struct mount_in *in,
                     const struct mount_terms *terms, struct vial_error *err)
{
    struct plan *plan = d->plan;
    struct plan_mount *mount = &plan->mounts[plan->mount_count];

    if (mount_check_target(plan, in->target, err) < 0)
        return -1;
    if (mount_source_judge(terms, in->source, mount, err) < 0)
        return -1;
    plan->mount_count++;
    mount->target = strdup(in->target);
    return mount->target ? 0 : fail_memory(err);
}

static int add_workspace(struct draft *d, struct vial_error *err)
{
    char mode[32];
    auto_free char *target = strdup(plan_workspace_at(d));
    struct mount_in in = { d->req->workspace, target, true };
    struct mount_terms terms = { .settings = d->settings };
    struct plan_mount *mount = &d->plan->mounts[d->plan->mount_count];
    bool overlay = false;

    if (!d->req->workspace)
        return 0;
    if (!target)
        return fail_memory(err);
    if (target[strspn(target, WORKSPACE_LETTERS)])
        return refuse_target(target, "has letters other than a-z, 0-9, '.', '_', '-'",
                             err);
    request_choice(d->req, FIELD_ID_workspace_mode, mode);
    overlay = str_eq(mode, "overlay");
    /* A commit writes to it, so that an overlay's is judged as writable. */
    terms.writable = in.writable = !str_eq(mode, "ro");
    terms.lower = overlay;
    terms.workspace = true;
    if (add_mount(d, &in, &terms, err) < 0)
        return fail_in(err, "workspace");
    if (!mount->is_dir)
        return fail(err, VIAL_E_MOUNT, "workspace '%s' is not a directory", in.source);
    mount->overlay = overlay;
    mount->writable = in.writable && !overlay;
    return 0;
}

static int judge_rootfs(struct draft *d, struct vial_error *err)
{
    struct plan_mount root = { 0 };
    struct mount_terms j = { .settings = d->settings, .lower = true };

    if (!d->req->rootfs)
        return 0;
    if (mount_source_judge(&j, d->req->rootfs, &root, err) < 0)
        return fail_in(err, "rootfs");
    d->plan->rootfs = root.source;
    if (!root.is_dir)
        return fail(err, VIAL_E_MOUNT, "rootfs '%s' is not a directory", root.source);
    return 0;
}

/* The workspace's place on the host if mounts must lie below it; "" if they must and
 * there is none; NULL if they need not. */
static const char *bounds_of(const struct draft *d)
{
    bool bound = d->settings->defaults.mounts_from == 1 || d->req->mounts_from == 1;

    if (!bound) /* neither says "workspace" */
        return NULL;
    return d->req->workspace ? d->plan->mounts[0].source : "";
}

int mount_build(struct draft *d, struct vial_error *err)
{
    const struct mount_list *list = &d->req->mounts;
    struct mount_terms terms = { .settings = d->settings };

    d->plan->mounts =
        calloc(list->count + d->req->volumes.count + 1, sizeof(*d->plan->mounts));
    if (!d->plan->mounts)
        return fail_memory(err);
    if (add_workspace(d, err) < 0)
        return -1;
    terms.within = bounds_of(d);
    for (size_t i = 0; i < list->count; i++) {
        terms.writable = list->items[i].writable;
        if (add_mount(d, &list->items[i], &terms, err) < 0)
            return -1;
    }
    return volumes_build(d, err) < 0 ? -1 : judge_rootfs(d, err);
}

/* Every socket is covered, and nothing outside. */
static bool hides_all(const struct plan_mount *m, const struct strv *sockets)
{
    for (size_t i = 0; i < m->hidden.count; i++)
        if (!path_is_clean_absolute(m->hidden.items[i]))
            return false;
    for (size_t i = 0; i < sockets->count; i++)
        if (!strv_has(&m->hidden, sockets->items[i]))
            return false;
    return true;
}

static int judge_same(struct mount_terms j, const struct plan_mount *m,
                      struct vial_error *err)
{
    struct plan_mount now = { 0 };
    int rc = mount_source_judge(&j, m->source, &now, err);

    if (rc == 0 && !hides_all(m, &now.hidden))
        rc = fail(err, VIAL_E_MOUNT, "mount source '%s' holds a socket", m->source);
    strv_done(&now.hidden);

    if (rc == 0 && (!str_eq(now.source, m->source) || now.dev != m->dev ||
                    now.ino != m->ino || now.is_dir != m->is_dir))
        rc = fail(err, VIAL_E_MOUNT, "mount source '%s' was replaced by something else",
                  m->source);
    free(now.source);
    return rc;
}

static int judge_root_again(const char *rootfs, const struct settings *settings,
                            struct vial_error *err)
{
    struct plan_mount now = { 0 };
    struct mount_terms j = { .settings = settings, .lower = true };
    int rc = mount_source_judge(&j, rootfs, &now, err);

    if (rc == 0 && (!now.is_dir || !str_eq(now.source, rootfs)))
        rc = fail(err, VIAL_E_MOUNT, "rootfs '%s' is not a directory", rootfs);
    free(now.source);
    return rc;
}

int mount_show(struct draft *d, const char *source, const char *target, bool packages,
               struct vial_error *err)
{
    const struct mount_in in = { (char *)(uintptr_t)source, (char *)(uintptr_t)target,
                                 false };
    const struct mount_terms terms = { .settings = d->settings, .packages = packages };
    struct plan_mount *grown =
        reallocarray(d->plan->mounts, d->plan->mount_count + 1, sizeof(*grown));

    if (!grown)
        return fail_memory(err);
    d->plan->mounts = grown;
    d->plan->mounts[d->plan->mount_count] = (struct plan_mount){ 0 };
    return add_mount(d, &in, &terms, err);
}

int mount_judge(const struct plan *plan, const struct settings *settings,
                struct vial_error *err)
{
    struct plan before = *plan; /* those that were judged already */

    if (volumes_judge(plan, &settings->policy, err) < 0)
        return -1;
    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct plan_mount *m = &plan->mounts[i];
        /* The first is the workspace, if there is one. */
        struct mount_terms j = { .settings = settings,
                                 .writable = m->writable,
                                 .workspace = i == 0 };

        before.mount_count = i;
        if (m->volume)
            continue;
        if (judge_target(m->target, err) < 0 ||
            check_apart(&before, m->target, err) < 0 || judge_same(j, m, err) < 0)
            return -1;
    }
    return plan->rootfs ? judge_root_again(plan->rootfs, settings, err) : 0;
}

/*
 * The caller's own Python packages, for presets that promise them: those of the active
 * virtual environment, or of pyenv's version, or else the user's own. Nothing of the
 * home directory but such a directory itself, `…/lib/python3.N/site-packages`, is ever
 * shown, read-only, and below a place that Python looks at after its own library
 * (PYTHONUSERBASE), so that no package takes the place of a module of that. A directory
 * that the policy or the judgement of mounts forbids stays hidden.
 */

static int add_package(struct draft *d, const char *source, struct vial_error *err)
{
    const char *name = strstr(source, "/lib/" USER_PACKAGES_VERSION);
    struct vial_error why = { 0 };
    auto_str struct str target = { 0 };

    while (name && strstr(name + 1,
                          "/lib/" USER_PACKAGES_VERSION)) /* the last one is its own */
        name = strstr(name + 1, "/lib/" USER_PACKAGES_VERSION);
    str_printf(&target, BASE "%s", name ? name : "");
    if (!str_ok(&target))
        return fail_memory(err);
    (void)mount_show(d, source, target.data, true, &why);
    return 0;
}

int packages_build(struct draft *d, struct vial_error *err)
{
    const struct strv *found = &d->settings->packages;
    struct plan *plan = d->plan;
    size_t before = plan->mount_count;

    if (!d->language || !str_starts(d->language->name, "python") || plan->rootfs ||
        plan_has_root(plan) || strcmp(d->driver->name, "native") != 0)
        return 0;
    for (size_t i = 0; i < plan->env.count; i++)
        if (str_starts(plan->env.items[i], "PYTHONUSERBASE="))
            return 0; /* the caller has other plans */
    for (size_t i = 0; i < found->count; i++)
        if (add_package(d, found->items[i], err) < 0)
            return -1;
    if (plan->mount_count == before)
        return 0;
    return field_put_env(&plan->env, "PYTHONUSERBASE", strlen("PYTHONUSERBASE"), BASE) <
                   0
               ? fail_memory(err)
               : 0;
}
