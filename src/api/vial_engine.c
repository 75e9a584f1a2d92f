/* SPDX-License-Identifier: Apache-2.0 */
#include "vial/engine.h"

#include <string.h>

#include "api/give.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "engine/engine.h"
#include "model/result.h"
#include "settings/schema.h"

int vial_engine_open(const struct vial_engine_options *options,
                     struct vial_engine **out, struct vial_error *err)
{
    return engine_open(options, NULL, out, err);
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

int text_give(json_t *value, char **json, struct vial_error *err)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    json_decref(value);
    if (!text)
        return fail_memory(err);
    *json = text;
    return 0;
}

int vial_config(struct vial_engine *engine, char **json, struct vial_error *err)
{
    return text_give(settings_json(engine->settings), json, err);
}

int vial_schema(const char *kind, char **json, struct vial_error *err)
{
    json_t *schema = NULL;

    return schema_find(kind, &schema, err) < 0 ? -1 : text_give(schema, json, err);
}

int vial_preset(struct vial_engine *engine, char **json, struct vial_error *err)
{
    return text_give(preset_json(engine->settings->seed), json, err);
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
