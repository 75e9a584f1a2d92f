/* SPDX-License-Identifier: Apache-2.0 */
#include "vial/vessels.h"

#include "api/give.h"
#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/state.h"
#include "driver/docker/cache.h"
#include "driver/docker/image.h"
#include "driver/list.h"
#include "engine/record/audit_events.h"
#include "engine/run/fetch_image.h"
#include "keeper/client/client.h"
#include "keeper/client/images.h"
#include "workspace/apply.h"

/* The container engine's socket is out of a front's reach. */
static bool is_kept(const struct vial_engine *engine)
{
    return engine->drivers == kept_drivers;
}

bool inside_is_far(const struct vial_engine *engine, const char *driver)
{
    const struct driver *d = driver_find(engine->drivers, driver);

    return d && d->far;
}

/* A cluster's and a service's, where vessels usually are there. */
static int list_far(const struct vial_engine *engine, struct vial_vessels *list,
                    struct vial_error *err)
{
    for (size_t i = 0; engine->drivers[i]; i++) {
        const struct driver *d = engine->drivers[i];

        if (d->list && engine_minds(engine, d) && d->list(list, err) < 0)
            return -1;
    }
    return 0;
}

int vial_vessel_list(struct vial_engine *engine, const char *prefix,
                     struct vial_vessels *out, struct vial_error *err)
{
    auto_vessels struct vial_vessels list = { 0 };

    if (list_here(&list, err) < 0 ||
        (is_kept(engine) ? kept_vessel_list(&list, err) : list_contained(&list, err)) <
            0 ||
        list_far(engine, &list, err) < 0)
        return -1;
    if (prefix)
        vessels_keep(&list, prefix);
    *out = list;
    list = (struct vial_vessels){ 0 };
    return 0;
}

int vial_vessels_of(struct vial_engine *engine, const char *prefix, char **json,
                    struct vial_error *err)
{
    auto_vessels struct vial_vessels list = { 0 };

    if (vial_vessel_list(engine, prefix, &list, err) < 0)
        return -1;
    return text_give(vessels_json(&list), json, err);
}

int vial_vessels(struct vial_engine *engine, char **json, struct vial_error *err)
{
    return vial_vessels_of(engine, NULL, json, err);
}

/* One driver's trouble is no reason to leave the others' leftovers. */
int vial_cleanup(struct vial_engine *engine, unsigned *removed, struct vial_error *err)
{
    auto_free char *state = state_path(engine->settings->home);
    int rc = state ? apply_recover(state, NULL, err) : 0;

    *removed = 0;
    for (size_t i = 0; engine->drivers[i]; i++) {
        const struct driver *d = engine->drivers[i];
        struct vial_error why = { 0 };
        unsigned count = 0;
        bool minded = d->sweep && engine_minds(engine, d);
        int swept = minded ? d->sweep(-1, &count, &why) : 0;

        if (swept < 0 && rc == 0 && err)
            *err = why;
        rc = swept < 0 ? -1 : rc;
        if (minded)
            record_cleanup(engine, d->name, count, swept < 0 ? &why : NULL);
        *removed += d->wants_image || d->remote ? count : 0;
    }
    return rc;
}

int inside_image_pull(struct vial_engine *engine, const struct vial_pull *pull,
                      json_t **out, struct vial_error *err)
{
    const struct driver *driver = driver_find(engine->drivers, "docker");

    if (pull->timeout_ms < 0)
        return fail(err, VIAL_E_VALUE, "pull: the time-out must be more than 0");
    return fetch_pull(engine, driver, pull, out, err);
}

int inside_images(struct vial_engine *engine, json_t **out, struct vial_error *err)
{
    struct api api;

    if (is_kept(engine))
        return kept_image_list(out, err);
    return api_find(&api, err) < 0 ? -1 : image_list(&api, out, err);
}

static int prune_here(bool all, json_t **out, struct vial_error *err)
{
    struct api api;

    return api_find(&api, err) < 0 ? -1 : image_prune(&api, all, out, err);
}

int inside_image_prune(struct vial_engine *engine, const struct vial_prune *prune,
                       json_t **out, struct vial_error *err)
{
    return fetch_prune(engine, prune, is_kept(engine) ? kept_image_prune : prune_here,
                       out, err);
}

int inside_caches(json_t **out, struct vial_error *err)
{
    struct api api;

    return api_find(&api, err) < 0 ? -1 : cache_list(&api, out, err);
}

int vial_image_pull(struct vial_engine *engine, const struct vial_pull *pull,
                    char **json, struct vial_error *err)
{
    json_t *image = NULL;

    return inside_image_pull(engine, pull, &image, err) < 0
               ? -1
               : text_give(image, json, err);
}

int vial_images(struct vial_engine *engine, char **json, struct vial_error *err)
{
    json_t *list = NULL;

    return inside_images(engine, &list, err) < 0 ? -1 : text_give(list, json, err);
}

int vial_image_prune(struct vial_engine *engine, const struct vial_prune *prune,
                     char **json, struct vial_error *err)
{
    json_t *report = NULL;

    return inside_image_prune(engine, prune, &report, err) < 0
               ? -1
               : text_give(report, json, err);
}

int vial_caches(struct vial_engine *engine, char **json, struct vial_error *err)
{
    json_t *list = NULL;

    (void)engine;
    return inside_caches(&list, err) < 0 ? -1 : text_give(list, json, err);
}

int vial_cache_prune(struct vial_engine *engine, unsigned *removed,
                     struct vial_error *err)
{
    struct api api;

    (void)engine;
    if (api_find(&api, err) < 0)
        return -1;
    return cache_prune(&api, removed, err);
}
