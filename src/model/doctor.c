/* SPDX-License-Identifier: Apache-2.0 */
#include "model/doctor.h"

#include "base/json.h"
#include "model/result.h"

static json_t *layers_json(const struct vial_driver *d)
{
    json_t *list = json_array();

    for (size_t i = 0; i < d->layer_count; i++) {
        const struct vial_layer *l = &d->layers[i];

        (void)json_array_append_new(
            list, json_pack("{s:s, s:b, s:s, s:s}", "name", l->name, "available",
                            l->available, "reason", l->reason, "fix", l->fix));
    }
    return list;
}

static json_t *drivers_json(const struct vial_doctor *doctor)
{
    json_t *list = json_array();

    for (size_t i = 0; i < doctor->driver_count; i++) {
        const struct vial_driver *d = &doctor->drivers[i];

        (void)json_array_append_new(
            list,
            json_pack("{s:s, s:b, s:b, s:s?, s:s, s:s, s:o, s:o}", "name", d->name,
                      "usable", d->usable, "automatic", d->automatic, "version",
                      d->version, "level", d->level, "limits_by", d->limits_by,
                      "layers", layers_json(d), "error", error_json(&d->error)));
    }
    return list;
}

json_t *doctor_automatic_json(const struct vial_doctor *d)
{
    return json_pack("{s:s?, s:o}", "driver", d->automatic, "error",
                     error_json(&d->no_automatic));
}

json_t *doctor_needed_json(const struct vial_doctor *d)
{
    return json_pack("{s:s, s:s?, s:s?, s:b}", "driver", d->wanted, "fallback",
                     d->fallback, "takes", d->takes, "ready", d->takes != NULL);
}

json_t *doctor_json(const struct vial_doctor *d)
{
    return json_pack("{s:s, s:s, s:b, s:o, s:o, s:o}", "version", d->version,
                     "share_dir", d->share_dir, "guest", d->guest, "automatic",
                     doctor_automatic_json(d), "needed", doctor_needed_json(d),
                     "drivers", drivers_json(d));
}

static json_t *aliases_json(const char *const *names)
{
    json_t *list = json_array();

    for (; names && *names; names++)
        (void)json_array_append_new(list, json_string(*names));
    return list;
}

json_t *languages_json(const struct vial_languages *list)
{
    auto_json json_t *all = json_array();

    for (size_t i = 0; i < list->count; i++) {
        const struct vial_language *l = &list->items[i];

        if (json_array_append_new(
                all, json_pack("{s:s, s:o, s:b, s:s, s:s?, s:s?}", "name", l->name,
                               "aliases", aliases_json(l->aliases), "usable", l->usable,
                               "program", l->program, "path", l->path, "version",
                               l->version)) < 0)
            return NULL;
    }
    return ptr_take(&all);
}

json_t *languages_names_json(const struct vial_languages *list)
{
    json_t *all = json_array();

    for (size_t i = 0; i < list->count; i++)
        (void)json_array_append_new(all, json_string(list->items[i].name));
    return all;
}
