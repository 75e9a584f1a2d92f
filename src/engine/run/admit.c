/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "driver/shared_dir.h"
#include "engine/run/run.h"
#include "images/image_name.h"
#include "images/store.h"
#include "keeper/client/client.h"

static bool is_missing(const struct vial_error *err)
{
    return fail_is(err, VIAL_E_ENGINE_MISSING) || fail_is(err, VIAL_E_ENGINE_DOWN);
}

/* A preset that wants a container engine may name another driver for hosts that have
 * none. What a user asked for by name is never replaced. */
static int fall_back(const struct vial_engine *e, struct vial_request *full,
                     const struct strv *require, const struct driver **driver,
                     struct vial_error *err)
{
    const char *other = json_string_value(preset_get(e->settings->seed, "fallback"));
    const char *origin = e->settings->origin[FIELD_ID_driver];
    struct vial_error why = { 0 };

    if (!other || !origin || !str_starts(origin, "preset ") ||
        ((full->own >> FIELD_ID_driver) & 1u))
        return 0;
    if (driver_works(*driver, require, &why) == 0 || !is_missing(&why))
        return 0;
    if (!((full->own >> FIELD_ID_network) & 1u))
        full->network = NETWORK_NONE; /* the others have no bridge */
    return driver_choose(e->drivers, other, require, driver, err);
}

/* An image that somebody asked for needs no engine where it is here, or can be fetched
 * without one; a preset's is for its own driver. */
static bool is_for_us(const struct vial_engine *e, const struct vial_request *full)
{
    auto_stored struct stored_image found = STORED_IMAGE_NONE;
    const struct driver *native = driver_find(e->drivers, "native");
    auto_free char *store =
        store_path(e->settings->image_store.store, e->settings->home);
    char when[32];

    if (store && store_look(store, full->image, &found, NULL) == 0)
        return true;
    request_choice(full, FIELD_ID_pull, when);
    return native && native->takes_image && !str_eq(when, "never") &&
           (image_names_host(full->image) || e->settings->image_store.registry) &&
           policy_check_pull(&e->settings->policy, full->image, NULL) == 0;
}

/* NAME becomes that of an engine's driver, if only one can have the image. */
static void choose_by_image(const struct vial_engine *e,
                            const struct vial_request *full, const struct strv *require,
                            char name[32])
{
    const struct driver *docker = driver_find(e->drivers, "docker");
    const char *origin = e->settings->origin[FIELD_ID_image];
    bool own = (full->own >> FIELD_ID_image) & 1u;

    if (!full->image || (!own && origin && str_starts(origin, "preset ")) ||
        e->drivers == kept_drivers || !docker || is_for_us(e, full))
        return;
    if (driver_works(docker, require, NULL) == 0)
        (void)snprintf(name, 32, "docker");
}

/* Before planning, so that the error is about the host and not the plan. */
static int choose_driver(const struct vial_engine *e, struct vial_request *full,
                         const struct driver **driver, struct vial_error *err)
{
    auto_strv struct strv require = { 0 };
    char name[32];

    strv_copy(&require, &full->require);
    strv_copy(&require, &e->settings->policy.require);
    if (!strv_ok(&require))
        return fail_memory(err);
    request_choice(full, FIELD_ID_driver, name);
    if (str_eq(name, "auto"))
        choose_by_image(e, full, &require, name);
    if (driver_choose(e->drivers, name, &require, driver, err) < 0)
        return -1;
    return fall_back(e, full, &require, driver, err);
}

static int check_overlay(const struct vial_engine *e, const struct vial_request *full,
                         const struct driver *driver, struct vial_error *err)
{
    char mode[32];

    request_choice(full, FIELD_ID_workspace_mode, mode);
    if (driver->overlays || !full->workspace || !str_eq(mode, "overlay"))
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "driver '%s' cannot put an overlay over the workspace", driver->name);
    if (e->drivers == kept_drivers)
        return fail_remedy(err, "use a daemon with 'serve.keeper: \"off\"', or "
                                "'--workspace-mode ro' or 'rw'");
    return fail_remedy(err, "use '--driver native', or '--workspace-mode ro' or 'rw'");
}

int admit(const struct vial_engine *e, const struct vial_request *req,
          struct vial_request *full, const struct driver **driver,
          struct vial_error *err)
{
    if (request_fill(full, req, err) < 0)
        return -1;
    full->own = full->set;
    if (request_fill(full, &e->settings->defaults, err) < 0 ||
        shared_dirs_make(&e->settings->places, err) < 0 ||
        policy_check(&e->settings->policy, full, err) < 0)
        return -1;
    if (choose_driver(e, full, driver, err) < 0)
        return -1;
    return check_overlay(e, full, *driver, err);
}

static int check_program(const struct plan *plan, const struct strv *argv,
                         struct vial_error *err)
{
    if (argv->count == 0 || strchr(argv->items[0], '{'))
        return 0; /* nothing, or what the compile step will make */

    auto_free char *path = path_find_program(argv->items[0], PATH_SEARCH);
    if (path)
        return 0;
    (void)fail(err, VIAL_E_INTERPRETER, "run %s: there is no program '%s' on this host",
               plan->language, argv->items[0]);
    return fail_remedy(err,
                       "install '%s' on this host, or run 'vial languages' to see what "
                       "is usable",
                       argv->items[0]);
}

int admit_programs(const struct driver *driver, const struct plan *plan,
                   struct vial_error *err)
{
    if (!driver->needs_programs_here || !plan->language || plan->rootfs ||
        plan_has_root(plan))
        return 0;
    if (check_program(plan, &plan->compile_argv, err) < 0)
        return -1;
    return check_program(plan, &plan->argv, err);
}
