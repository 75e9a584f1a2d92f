/* SPDX-License-Identifier: Apache-2.0 */

/* The table of a preset's tools, made of the preset's data. */

#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "mcp/preset.h"
#include "mcp/settings_text.h"
#include "mcp/tools.h"
#include "model/doctor.h"

static void world_free(void *data)
{
    struct preset_world *w = data;

    json_decref(w->block);
    json_decref(w->words);
    strv_done(&w->texts);
    preset_end_kept(w);
    free(w->tools);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}

static int read_world(struct vial_engine *engine, struct preset_world *w,
                      struct vial_error *err)
{
    const struct settings *s = inside_settings(engine);

    w->settings = s;
    w->block = preset_json(s->seed);
    w->words = mcp_words(s);
    if (!w->block || !w->words)
        return fail_memory(err);
    w->timeout_ms = request_amount(&s->defaults, FIELD_ID_timeout);
    w->max_timeout_ms = policy_cap(&s->policy, FIELD_ID_timeout);
    return 0;
}

/* `enum: languages`: the settings say which there are. */
static bool by_settings(const json_t *parameter)
{
    return json_is_string(json_object_get(parameter, "enum"));
}

/* `enum: languages` stands for those that the settings have. */
static json_t *choices(const struct preset_world *w, const json_t *parameter)
{
    if (!by_settings(parameter))
        return json_incref(json_object_get(parameter, "enum"));
    return settings_languages_json(w->settings);
}

static bool is_timeout(const json_t *parameter)
{
    return str_eq(preset_text(parameter, "field"), "timeout");
}

/* Of a time-out: what it is unless one is given, and the most that may be, in the unit
 * of the parameter. */
static void add_bounds(const struct preset_world *w, const json_t *parameter,
                       json_t *schema)
{
    json_int_t unit = str_eq(preset_text(parameter, "form"), "{}ms") ? 1 : 1000;

    if (w->timeout_ms % unit == 0)
        (void)json_object_set_new(schema, "default",
                                  json_integer(w->timeout_ms / unit));
    (void)json_object_set_new(schema, "maximum",
                              json_integer(w->max_timeout_ms / unit));
}

static json_t *in_words(const struct preset_world *w, const char *text)
{
    auto_str struct str s = { 0 };

    mcp_expand(&s, text, w->words);
    return str_ok(&s) ? json_stringn(s.data, s.len) : NULL;
}

static json_t *items_schema(const json_t *parameter)
{
    if (str_eq(preset_text(parameter, "field"), "files"))
        return tool_file_schema();
    return json_pack("{s:s}", "type", "string");
}

static json_t *parameter_schema(const struct preset_world *w, const json_t *parameter)
{
    static const char *const copied[] = { "type", "minimum", "maximum", "default" };
    json_t *schema = json_object();

    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        json_t *value = json_object_get(parameter, copied[i]);

        if (value)
            (void)json_object_set(schema, copied[i], value);
    }
    (void)json_object_set_new(schema, "description",
                              in_words(w, preset_text(parameter, "description")));
    if (is_timeout(parameter))
        add_bounds(w, parameter, schema);
    if (str_eq(json_string_value(json_object_get(parameter, "part")), "content"))
        (void)json_object_set_new(schema, "contentMediaType",
                                  json_string("application/octet-stream"));
    if (str_eq(preset_text(parameter, "type"), "array"))
        (void)json_object_set_new(schema, "items", items_schema(parameter));
    if (json_object_get(parameter, "enum"))
        (void)json_object_set_new(schema, "enum", choices(w, parameter));
    return schema;
}

static json_t *input_schema(const struct preset_world *w, const json_t *tool)
{
    json_t *parameters = json_object_get(tool, "parameters");
    json_t *properties = json_object();
    json_t *required = json_array();

    for (void *at = json_object_iter(parameters); at;
         at = json_object_iter_next(parameters, at)) {
        const json_t *one = json_object_iter_value(at);
        const char *name = json_object_iter_key(at);

        (void)json_object_set_new(properties, name, parameter_schema(w, one));
        if (json_is_true(json_object_get(one, "required")))
            (void)json_array_append_new(required, json_string(name));
    }
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties,
                     "required", required, "additionalProperties", 0);
}

/* What the settings decide is left to the engine, which says it in its own words and
 * records it: how long a time-out may be, and which languages there are. */
static json_t *judged_schema(const json_t *tool, json_t *input)
{
    json_t *parameters = json_object_get(tool, "parameters");
    json_t *copy = json_deep_copy(input);

    for (void *at = json_object_iter(parameters); at;
         at = json_object_iter_next(parameters, at)) {
        json_t *one = json_object_get(json_object_get(copy, "properties"),
                                      json_object_iter_key(at));

        if (is_timeout(json_object_iter_value(at)))
            (void)json_object_del(one, "maximum");
        if (by_settings(json_object_iter_value(at)))
            (void)json_object_del(one, "enum");
    }
    return copy;
}

/* Languages come and go with a container engine. */
static json_t *listed(const struct mcp_tool *tool, struct vial_engine *engine)
{
    const struct preset_tool *data = tool->data;
    json_t *parameters = json_object_get(data->tool, "parameters");
    json_t *copy = json_deep_copy(tool->input);
    json_t *properties = json_object_get(copy, "properties");
    auto_languages struct vial_languages offered = { 0 };
    auto_json json_t *names = NULL;

    if (vial_language_list_offered(engine, &offered, NULL) < 0)
        return copy;
    names = languages_names_json(&offered);
    for (void *at = json_object_iter(parameters); at;
         at = json_object_iter_next(parameters, at))
        if (by_settings(json_object_iter_value(at)))
            (void)json_object_set(json_object_get(properties, json_object_iter_key(at)),
                                  "enum", names);
    return copy;
}

static bool has_languages(const json_t *tool)
{
    json_t *parameters = json_object_get(tool, "parameters");

    for (void *at = json_object_iter(parameters); at;
         at = json_object_iter_next(parameters, at))
        if (by_settings(json_object_iter_value(at)))
            return true;
    return false;
}

static json_t *annotations(const struct preset_world *w, const json_t *tool)
{
    const char *does = preset_text(tool, "does");
    bool reads = strcmp(does, "read") == 0 || strcmp(does, "list") == 0 ||
                 strcmp(does, "vessels") == 0;
    bool removes = strcmp(does, "close") == 0 || strcmp(does, "cleanup") == 0;

    return json_pack("{s:b, s:b, s:b}", "readOnlyHint", reads, "destructiveHint",
                     removes, "openWorldHint",
                     !str_eq(preset_text(w->words, "network"), "none"));
}

static void fill(struct mcp_tool *out, const char *name, struct preset_tool *data)
{
    const json_t *tool = data->tool;
    const char *does = preset_text(tool, "does");
    bool runs = strcmp(does, "run") == 0 || strcmp(does, "exec") == 0;
    auto_str struct str text = { 0 };

    *out = (struct mcp_tool){
        .name = name,
        .title = preset_text(tool, "title"),
        .input = input_schema(data->world, tool),
        .output = preset_output(tool),
        .annotations = annotations(data->world, tool),
        .call = preset_call,
        .refuse = preset_refuse,
        .data = data,
        .runs = runs,
    };
    out->judged = judged_schema(tool, out->input);
    out->listed = has_languages(tool) ? listed : NULL;
    mcp_expand(&text, preset_text(tool, "description"), data->world->words);
    strv_push(&data->world->texts, str_ok(&text) ? text.data : "");
}

static int build(struct preset_world *w, struct mcp_tools *out, struct vial_error *err)
{
    json_t *tools = json_object_get(w->block, "tools");
    size_t count = json_object_size(tools);
    size_t i = 0;

    w->tools = calloc(count, sizeof *w->tools);
    out->items = calloc(count, sizeof *out->items);
    if (!w->tools || !out->items)
        return fail_memory(err);
    for (void *at = json_object_iter(tools); at;
         at = json_object_iter_next(tools, at)) {
        w->tools[i].world = w;
        w->tools[i].tool = json_object_iter_value(at);
        fill(&out->items[i], json_object_iter_key(at), &w->tools[i]);
        out->count = ++i;
    }
    if (!strv_ok(&w->texts))
        return fail_memory(err);
    for (i = 0; i < count; i++)
        out->items[i].description = w->texts.items[i];
    return 0;
}

int mcp_preset_tools(struct vial_engine *engine, const char *name,
                     struct mcp_tools *out, struct vial_error *err)
{
    struct mcp_tools tools = { .data_free = world_free };
    struct preset_world *w = calloc(1, sizeof *w);
    int rc;

    (void)name; /* the engine has read it */
    if (!w)
        return fail_memory(err);
    (void)pthread_mutex_init(&w->lock, NULL);
    tools.data = w;
    rc = read_world(engine, w, err);
    if (rc == 0 && json_object_size(json_object_get(w->block, "tools")) == 0) {
        mcp_tools_done(&tools);
        return mcp_own_tools(engine, out, err);
    }
    if (rc == 0)
        rc = build(w, &tools, err);
    if (rc < 0)
        mcp_tools_done(&tools);
    else
        *out = tools;
    return rc;
}
