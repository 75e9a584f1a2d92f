/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "engine/engine.h"
#include "engine/record/audit_events.h"
#include "keeper/client/client.h"
#include "keeper/client/volumes.h"
#include "model/result.h"
#include "volumes/volume_store.h"

static char *find_store(const struct vial_engine *engine, struct vial_error *err)
{
    const struct settings *s = engine->settings;
    char *path = volume_store_path(s->volumes.store, s->home);

    if (!path)
        (void)fail_memory(err);
    return path;
}

static bool is_kept(const struct vial_engine *engine)
{
    return engine->drivers == kept_drivers;
}

static const char *state_of(const struct volume_info *v)
{
    if (v->broken)
        return "broken";
    return v->written ? "written" : v->busy ? "read" : "free";
}

static json_t *row_json(const struct volume_info *v)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I}", "name", v->name, "writers",
                     v->many ? "many" : "one", "state", state_of(v), "size",
                     v->size ? json_integer((json_int_t)v->size) : json_null(),
                     "created", (json_int_t)v->created, "used", (json_int_t)v->used);
}

static int list(const struct vial_engine *engine, struct volume_info **out,
                size_t *count, struct vial_error *err)
{
    auto_free char *store = NULL;

    if (is_kept(engine))
        return kept_volumes(out, count, err);
    store = find_store(engine, err);
    return store ? volume_list(store, out, count, err) : -1;
}

int inside_volumes(const struct vial_engine *engine, json_t **out,
                   struct vial_error *err)
{
    auto_free struct volume_info *rows = NULL;
    auto_json json_t *all = json_array();
    size_t count = 0;

    if (list(engine, &rows, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(all, row_json(&rows[i])) < 0)
            return fail_memory(err);
    *out = ptr_take(&all);
    return *out ? 0 : fail_memory(err);
}

static int look(const struct vial_engine *engine, const char *name,
                struct volume_info *out, struct vial_error *err)
{
    auto_free char *store = NULL;

    if (is_kept(engine))
        return kept_volume(name, out, err);
    store = find_store(engine, err);
    return store ? volume_look(store, name, out, err) : -1;
}

int inside_volume(const struct vial_engine *engine, const char *name, json_t **out,
                  struct vial_error *err)
{
    struct volume_info row;

    if (look(engine, name, &row, err) < 0)
        return -1;
    *out = row_json(&row);
    return *out ? 0 : fail_memory(err);
}

/* The operator, who asks by the command, is bound by his disk alone. */
static int make(const struct vial_engine *engine, const char *caller,
                const struct inside_volume *wanted, struct vial_error *err)
{
    const struct volume_settings *s = &engine->settings->volumes;
    const struct volume_terms terms = {
        .many = wanted->many,
        .size = (uint64_t)(wanted->size ? wanted->size : s->size),
        .most = caller ? (uint32_t)s->most : VOLUME_ANY,
        .most_of_owner = caller ? (uint32_t)s->caller : VOLUME_ANY,
        .most_size = caller ? (uint64_t)s->caller_size : 0,
    };
    auto_free char *store = NULL;

    if (is_kept(engine))
        return kept_volume_make(wanted->name, &terms, err);
    store = find_store(engine, err);
    return store ? volume_create(store, wanted->name, &terms, err) : -1;
}

static int remove_named(const struct vial_engine *engine, const char *name,
                        struct vial_error *err)
{
    auto_free char *store = NULL;

    if (is_kept(engine))
        return kept_volume_remove(name, err);
    store = find_store(engine, err);
    return store ? volume_remove(store, name, err) : -1;
}

/* What was done, or tried in vain: WHY, or without a code. Gives 0; -1 with ERR: it was
 * in vain, or could not be recorded. */
static int record(struct vial_engine *engine, const char *event, const char *caller,
                  const char *name, const struct vial_error *why,
                  struct vial_error *err)
{
    bool failed = why->code[0] != '\0';
    json_t *detail = json_pack("{s:s, s:s, s:o}", "volume", name, "outcome",
                               failed ? "failed" : "ok", "error",
                               failed ? error_json(why) : json_null());
    int rc;

    if (detail && caller)
        (void)json_object_set_new(detail, "caller", json_pack("{s:s}", "name", caller));
    rc = record_event(engine, event, detail, failed ? NULL : err);
    if (failed && err)
        *err = *why;
    return failed ? -1 : rc;
}

int inside_volume_create(struct vial_engine *engine, const char *caller,
                         const struct inside_volume *wanted, struct vial_error *err)
{
    struct vial_error why = { 0 };

    (void)make(engine, caller, wanted, &why);
    return record(engine, "volume.create", caller, wanted->name, &why, err);
}

int inside_volume_remove(struct vial_engine *engine, const char *caller,
                         const char *name, struct vial_error *err)
{
    struct vial_error why = { 0 };

    (void)remove_named(engine, name, &why);
    return record(engine, "volume.remove", caller, name, &why, err);
}

int inside_volume_prune(struct vial_engine *engine, int64_t unused_for_s,
                        unsigned *removed, struct vial_error *err)
{
    auto_free char *store = find_store(engine, err);

    if (!store || volume_prune(store, unused_for_s, removed, err) < 0)
        return -1;
    return record_event(engine, "volume.prune",
                        json_pack("{s:i, s:I}", "removed", (int)*removed,
                                  "unused_for_s", (json_int_t)unused_for_s),
                        err);
}
