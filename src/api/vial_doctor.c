/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/give.h"
#include "base/fail.h"
#include "engine/engine.h"
#include "model/doctor.h"

/* The report that is given away, and the memory it points into. */
struct report {
    struct vial_doctor shown; /* first: who frees it has this address */
    struct strv texts;
};

static int add_layers(struct report *r, struct vial_driver *d, const struct caps *caps)
{
    d->layers = calloc(caps->layer_count + 1, sizeof(*d->layers));
    if (!d->layers)
        return -1;
    for (; d->layer_count < caps->layer_count; d->layer_count++) {
        const struct layer *l = &caps->layers[d->layer_count];

        d->layers[d->layer_count] =
            (struct vial_layer){ .name = l->name,
                                 .available = l->available,
                                 .reason = strv_keep(&r->texts, l->reason),
                                 .fix = strv_keep(&r->texts, l->fix) };
    }
    return 0;
}

static int add_driver(struct report *r, const struct driver *driver)
{
    auto_free struct caps *caps = malloc(sizeof(*caps));
    struct vial_driver *d = &r->shown.drivers[r->shown.driver_count];
    bool automatic = false;

    if (!caps)
        return -1;
    if (!driver_examine(driver, caps, &automatic))
        return 0;
    r->shown.driver_count++;
    *d = (struct vial_driver){
        .name = driver->name,
        .usable = caps->usable,
        .automatic = automatic,
        .version = strv_keep(&r->texts, driver_version(caps)),
        .level = caps->level,
        .limits_by = caps->limits_by,
        .error = caps->why_not,
    };
    return add_layers(r, d, caps);
}

/* A daemon that is asked whether it is ready spends nobody's account for that. */
static bool is_looked_at(const struct vial_engine *e, const struct driver *driver)
{
    return !e->settings->serves || engine_minds(e, driver);
}

static int add_drivers(const struct vial_engine *e, struct report *r,
                       const struct driver *const *table)
{
    size_t count = 0;

    while (table[count])
        count++;
    r->shown.drivers = calloc(count + 1, sizeof(*r->shown.drivers));
    for (size_t i = 0; r->shown.drivers && i < count; i++)
        if (is_looked_at(e, table[i]) && add_driver(r, table[i]) < 0)
            return -1;
    return r->shown.drivers ? 0 : -1;
}

/* The driver that "auto" means here. */
static void find_automatic(const struct vial_engine *e, struct vial_doctor *out)
{
    auto_strv struct strv require = { 0 };
    const struct driver *driver;

    strv_push(&require, "none"); /* so that it is probed and not only named */
    if (driver_choose(e->drivers, "auto", &require, &driver, &out->no_automatic) == 0)
        out->automatic = driver->name;
}

static bool is_usable(const struct vial_doctor *d, const char *name)
{
    for (size_t i = 0; i < d->driver_count; i++)
        if (str_eq(d->drivers[i].name, name))
            return d->drivers[i].usable;
    return false;
}

/* The driver that the settings ask for, who may stand in, and who of them is here. */
static void find_needed(const struct vial_engine *e, struct report *r)
{
    const char *origin = e->settings->origin[FIELD_ID_driver];
    struct vial_doctor *d = &r->shown;
    char wanted[32] = "auto";

    request_choice(&e->settings->defaults, FIELD_ID_driver, wanted);
    d->wanted = strv_keep(&r->texts, wanted);
    if (origin && str_starts(origin, "preset ")) /* what a user names is not replaced */
        d->fallback = strv_keep(
            &r->texts, json_string_value(preset_get(e->settings->seed, "fallback")));
    if (str_eq(wanted, "auto"))
        d->takes = d->automatic;
    else if (is_usable(d, wanted))
        d->takes = d->wanted;
    else if (is_usable(d, d->fallback))
        d->takes = d->fallback;
}

int vial_doctor_look(struct vial_engine *engine, struct vial_doctor **out,
                     struct vial_error *err)
{
    struct report *r = calloc(1, sizeof(*r));

    if (!r)
        return fail_memory(err);
    r->shown.version = VIAL_VERSION;
    r->shown.share_dir = strv_keep(&r->texts, engine->settings->share_dir);
    r->shown.guest = engine->guest_fd >= 0;
    find_automatic(engine, &r->shown);
    if (add_drivers(engine, r, engine->drivers) == 0)
        find_needed(engine, r);
    if (!r->shown.wanted || !strv_ok(&r->texts)) {
        vial_doctor_free(&r->shown);
        return fail_memory(err);
    }
    *out = &r->shown;
    return 0;
}

void vial_doctor_free(struct vial_doctor *doctor)
{
    struct report *r = (struct report *)doctor;

    if (!r)
        return;
    for (size_t i = 0; i < doctor->driver_count; i++)
        free(doctor->drivers[i].layers);
    free(doctor->drivers);
    strv_done(&r->texts);
    free(r);
}

int vial_doctor(struct vial_engine *engine, char **json, struct vial_error *err)
{
    auto_doctor struct vial_doctor *doctor = NULL;

    if (vial_doctor_look(engine, &doctor, err) < 0)
        return -1;
    return text_give(doctor_json(doctor), json, err);
}
