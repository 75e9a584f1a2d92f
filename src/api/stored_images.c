/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "engine/engine.h"
#include "engine/record/audit_events.h"
#include "engine/run/fetch_image.h"
#include "engine/session/save_files.h"
#include "images/image_json.h"
#include "images/snapshot_name.h"
#include "images/store_ids.h"
#include "images/store_remove.h"
#include "keeper/client/client.h"
#include "model/result.h"

char *inside_store(const struct vial_engine *engine, struct vial_error *err)
{
    char *path =
        store_path(engine->settings->image_store.store, engine->settings->home);

    if (!path)
        (void)fail_memory(err);
    return path;
}

int inside_stored_images(const struct vial_engine *engine, json_t **out,
                         struct vial_error *err)
{
    auto_free char *store = inside_store(engine, err);

    return store ? store_list_json(store, out, err) : -1;
}

int inside_stored_image(const struct vial_engine *engine, const char *reference,
                        json_t **out, struct vial_error *err)
{
    auto_free char *store = inside_store(engine, err);

    return store ? store_inspect_json(store, reference, out, err) : -1;
}

int inside_store_pull(struct vial_engine *engine, const struct vial_pull *pull,
                      json_t **out, struct vial_error *err)
{
    if (pull->timeout_ms < 0)
        return fail(err, VIAL_E_VALUE, "pull: the time-out must be more than 0");
    return fetch_pull(engine, driver_find(engine->drivers, "native"), pull, out, err);
}

int inside_store_do(struct vial_engine *engine, const char *verb,
                    const struct vial_pull *image, const struct image_ends *ends,
                    json_t **out, struct vial_error *err)
{
    if (fetch_into_store(engine, verb, image, ends, out, err) < 0)
        return -1;
    if (strcmp(verb, "import") != 0)
        return 0;
    return record_event(engine, "image.import",
                        json_pack("{s:s?, s:O?, s:O?}", "image", image->name, "id",
                                  json_object_get(*out, "id"), "digest",
                                  json_object_get(*out, "digest")),
                        err);
}

int inside_snapshot(struct vial_session *session, bool forks, const char *owner,
                    const char *name, json_t **out, struct vial_error *err)
{
    auto_str struct str whole = { 0 };

    return inside_snapshot_name(forks, owner, name, &whole, err) < 0
               ? -1
               : inside_snapshot_as(session, whole.data, out, err);
}

int inside_snapshot_name(bool forks, const char *owner, const char *name,
                         struct str *out, struct vial_error *err)
{
    return snapshot_name_make(forks, owner, name, out, err);
}

int inside_snapshot_as(struct vial_session *session, const char *whole, json_t **out,
                       struct vial_error *err)
{
    const struct vial_snapshot_options options = { .name = whole };

    return save_files(session, &options, out, err);
}

/* What was removed belongs to ids that an ordinary user has only in a namespace:
 * vial-image, which works in one, takes it from the disk. If it cannot, the next that
 * writes to the store does. */
static void sweep_range(struct vial_engine *engine, const char *store)
{
    const struct vial_pull nobody = { .cancel_fd = -1, .retries = -1 };
    struct vial_error ignored = { 0 };
    struct subids ids;
    json_t *out = NULL;

    if (!store_ids_hold(store, &ids))
        return;
    (void)fetch_into_store(engine, "sweep", &nobody, NULL, &out, &ignored);
    json_decref(out);
}

static int remove_snapshot(struct vial_engine *engine, const char *name,
                           struct vial_error *err)
{
    auto_free char *store = NULL;
    struct store_removed removed = { 0 };

    if (engine->drivers == kept_drivers)
        return kept_image_forget(name, err);
    store = inside_store(engine, err);
    if (!store || store_remove(store, name, &removed, err) < 0)
        return -1;
    sweep_range(engine, store);
    return 0;
}

int inside_snapshot_remove(struct vial_engine *engine, const char *owner,
                           const char *name, struct vial_error *err)
{
    struct vial_error why = { 0 };
    int rc = snapshot_name_is_of(name, owner)
                 ? remove_snapshot(engine, name, &why)
                 : fail(&why, VIAL_E_IMAGE, "there is no snapshot '%.160s'", name);

    if (record_event(engine, "image.remove",
                     json_pack("{s:s, s:{s:s}, s:s, s:o}", "image", name, "caller",
                               "name", owner, "outcome", rc < 0 ? "failed" : "ok",
                               "error", rc < 0 ? error_json(&why) : json_null()),
                     rc < 0 ? NULL : err) < 0 &&
        rc == 0)
        return -1;
    if (rc < 0 && err)
        *err = why;
    return rc;
}

int inside_snapshots(struct vial_engine *engine, const char *owner, struct strv *out,
                     struct vial_error *err)
{
    auto_free char *store = NULL;

    if (engine->drivers == kept_drivers)
        return kept_images_saved(owner, out, err);
    store = inside_store(engine, err);
    return store ? snapshot_names(store, owner, out, err) : -1;
}

static json_t *removed_json(const struct store_removed *r)
{
    return json_pack("{s:I, s:I}", "removed", (json_int_t)r->images, "freed_bytes",
                     (json_int_t)r->bytes);
}

int inside_store_prune(struct vial_engine *engine, const struct store_prune *rules,
                       json_t **out, struct vial_error *err)
{
    auto_free char *store = inside_store(engine, err);
    struct store_removed removed = { 0 };

    if (!store || store_prune(store, rules, &removed, err) < 0)
        return -1;
    sweep_range(engine, store);
    *out = removed_json(&removed);
    return record_event(engine, "image.prune", json_incref(*out), err);
}

int inside_store_remove(struct vial_engine *engine, const char *reference, json_t **out,
                        struct vial_error *err)
{
    auto_free char *store = inside_store(engine, err);
    struct store_removed removed = { 0 };

    if (!store || store_remove(store, reference, &removed, err) < 0)
        return -1;
    sweep_range(engine, store);
    *out = removed_json(&removed);
    return record_event(engine, "image.remove",
                        json_pack("{s:s, s:O}", "image", reference, "done", *out), err);
}
