/* SPDX-License-Identifier: Apache-2.0 */
#include "vial/engine.h"

#include <string.h>

#include "api/languages.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "engine/engine.h"
#include "model/result.h"
#include "settings/schema.h"

int vial_engine_open(const struct vial_engine_options *options,
                     struct vial_engine **out, struct vial_error *err)
{
    return engine_open(options, out, err);
}

void vial_engine_close(struct vial_engine *engine)
{
    engine_close(engine);
}

int vial_run(struct vial_engine *engine, const struct vial_request *req,
             const struct vial_watch *watch, struct vial_result **out,
             struct vial_error *err)
{
    struct vial_result *result = result_new();

    if (!result)
        return fail_memory(err);
    engine_run(engine, req, watch, result);
    *out = result;
    return 0;
}

/* Takes VALUE, which may be NULL for lack of memory. */
static int give_text(json_t *value, char **json, struct vial_error *err)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    json_decref(value);
    if (!text)
        return fail_memory(err);
    *json = text;
    return 0;
}

int vial_plan(struct vial_engine *engine, const struct vial_request *req, char **json,
              struct vial_error *err)
{
    auto_plan struct plan *plan = NULL;
    auto_json json_t *shown = NULL;
    const struct driver *driver;

    if (engine_plan(engine, req, &driver, &plan, err) < 0)
        return -1;
    shown = plan_json(plan);
    if (shown && driver->describe &&
        driver->describe(plan, engine->settings->share_dir, shown, err) < 0)
        return -1;
    return give_text(json_incref(shown), json, err);
}

int vial_languages(struct vial_engine *engine, char **json, struct vial_error *err)
{
    return give_text(languages_json(engine), json, err);
}

int vial_languages_offered(struct vial_engine *engine, char **json,
                           struct vial_error *err)
{
    return give_text(languages_offered(engine), json, err);
}

int vial_config(struct vial_engine *engine, char **json, struct vial_error *err)
{
    return give_text(settings_json(engine->settings), json, err);
}

/* The driver that "auto" means here, or null with the reason. */
static json_t *automatic_json(const struct vial_engine *e)
{
    auto_strv struct strv require = { 0 };
    const struct driver *driver;
    struct vial_error why = { 0 };

    strv_push(&require, "none"); /* so that it is probed and not only named */
    if (driver_choose(e->drivers, "auto", &require, &driver, &why) == 0)
        return json_pack("{s:s, s:n}", "driver", driver->name, "error");
    return json_pack("{s:n, s:o}", "driver", "error", error_json(&why));
}

static bool is_usable(json_t *list, const char *name)
{
    json_t *driver;
    size_t i;

    json_array_foreach(list, i, driver)
    {
        if (str_eq(json_string_value(json_object_get(driver, "name")), name))
            return json_is_true(json_object_get(driver, "usable"));
    }
    return false;
}

/* The driver that the settings ask for, who may stand in, and who of them is here. */
static json_t *needed_json(const struct vial_engine *e, json_t *list, json_t *automatic)
{
    const char *origin = e->settings->origin[FIELD_ID_driver];
    const char *fallback =
        origin && str_starts(origin, "preset ") /* what a user names is not replaced */
            ? json_string_value(preset_get(e->settings->seed, "fallback"))
            : NULL;
    const char *takes = NULL;
    char wanted[32] = "auto";

    request_choice(&e->settings->defaults, FIELD_ID_driver, wanted);
    if (str_eq(wanted, "auto"))
        takes = json_string_value(json_object_get(automatic, "driver"));
    else if (is_usable(list, wanted))
        takes = wanted;
    else if (fallback && is_usable(list, fallback))
        takes = fallback;
    return json_pack("{s:s, s:s?, s:s?, s:b}", "driver", wanted, "fallback", fallback,
                     "takes", takes, "ready", takes != NULL);
}

int vial_doctor(struct vial_engine *engine, char **json, struct vial_error *err)
{
    auto_json json_t *automatic = automatic_json(engine);
    auto_json json_t *list = driver_doctor_json(engine->drivers);
    json_t *value = json_pack("{s:s, s:s, s:b, s:O, s:o, s:O}", "version", VIAL_VERSION,
                              "share_dir", engine->settings->share_dir, "guest",
                              engine->guest_fd >= 0, "automatic", automatic, "needed",
                              needed_json(engine, list, automatic), "drivers", list);

    return give_text(value, json, err);
}

int vial_schema(const char *kind, char **json, struct vial_error *err)
{
    if (strcmp(kind, "request") == 0)
        return give_text(schema_request(), json, err);
    if (strcmp(kind, "result") == 0)
        return give_text(schema_result(), json, err);
    if (strcmp(kind, "settings") == 0)
        return give_text(schema_settings(), json, err);
    (void)fail(err, VIAL_E_VALUE, "schema '%s' does not exist", kind);
    return fail_remedy(err, "ask for 'request', 'result' or 'settings'");
}

int vial_preset(struct vial_engine *engine, char **json, struct vial_error *err)
{
    return give_text(preset_json(engine->settings->seed), json, err);
}

const char *vial_preset_name(const struct vial_engine *engine)
{
    return engine->settings->preset;
}

const char *vial_preset_code(const struct vial_engine *engine, const char *code)
{
    return preset_code(engine->settings->seed, code, NULL);
}

const char *vial_version(void)
{
    return VIAL_VERSION;
}
