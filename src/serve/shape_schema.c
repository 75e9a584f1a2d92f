/* SPDX-License-Identifier: Apache-2.0 */

/* The JSON schemas of what bodies.def and answers.def tell. */

#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "model/fields.h"
#include "serve/bodies.h"
#include "settings/schema.h"

json_t *shape_ref(const char *name, size_t len)
{
    auto_str struct str to = { 0 };

    str_printf(&to, "#/components/schemas/%.*s", (int)len, name);
    return json_pack("{s:s}", "$ref", str_ok(&to) ? to.data : "");
}

static json_t *typed(const char *type)
{
    return json_pack("{s:s}", "type", type);
}

/* A shape or a JSON type, as shape_row.inside names it. */
static json_t *inner(const char *inside)
{
    static const char *const types[] = { "string", "integer", "number", "boolean" };
    size_t len = inside ? strcspn(inside, "?") : 0;

    if (len == 0)
        return json_object();
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strncmp(types[i], inside, len) == 0 && types[i][len] == '\0')
            return typed(types[i]);
    return shape_ref(inside, len);
}

/* SCHEMA, or null. */
static json_t *or_null(json_t *schema)
{
    return json_pack("{s:[o, {s:s}]}", "anyOf", schema, "type", "null");
}

static json_t *entry(const char *inside)
{
    bool nil = inside && strchr(inside, '?');

    return nil ? or_null(inner(inside)) : inner(inside);
}

static json_t *text_schema(const char *values)
{
    json_t *schema = typed("string");
    json_t *list = json_array();

    while (values && *values && *values != '?') {
        size_t len = strcspn(values, "|");

        (void)json_array_append_new(list, json_stringn(values, len));
        values += len + (values[len] ? 1 : 0);
    }
    if (json_array_size(list))
        (void)json_object_set(schema, "enum", list);
    json_decref(list);
    return schema;
}

static json_t *duration_schema(void)
{
    static const struct field day = { .type = FIELD_MS, .max = 86400000, .help = "" };

    return schema_field(&day);
}

static json_t *size_schema(void)
{
    static const struct field any = { .type = FIELD_BYTES,
                                      .max = INT64_MAX,
                                      .help = "" };

    return schema_field(&any);
}

static json_t *by_type(const struct shape_row *row)
{
    switch (row->type) {
    case MEMBER_TEXT:
        return text_schema(row->inside);
    case MEMBER_BYTES:
        return typed("string");
    case MEMBER_BOOL:
        return typed("boolean");
    case MEMBER_COUNT:
        return json_pack("{s:s, s:i}", "type", "integer", "minimum", 0);
    case MEMBER_MS:
        return duration_schema();
    case MEMBER_SIZE:
        return size_schema();
    case MEMBER_INTEGER:
        return typed("integer");
    case MEMBER_NUMBER:
        return typed("number");
    case MEMBER_TEXTS:
        return json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
    case MEMBER_WORDS:
        return json_pack("{s:s, s:{s:s}}", "type", "object", "additionalProperties",
                         "type", "string");
    case MEMBER_LIST:
        return json_pack("{s:s, s:o}", "type", "array", "items", entry(row->inside));
    case MEMBER_MAP:
        return json_pack("{s:s, s:o}", "type", "object", "additionalProperties",
                         entry(row->inside));
    case MEMBER_OBJECT:
        return inner(row->inside);
    case MEMBER_ANY:
        break;
    }
    return json_object();
}

static json_t *member_schema(const struct shape_row *row)
{
    bool of_entry = row->type == MEMBER_LIST || row->type == MEMBER_MAP;
    bool nil =
        row->rule == NIL || (!of_entry && row->inside && strchr(row->inside, '?'));
    json_t *schema = nil ? or_null(by_type(row)) : by_type(row);

    if (row->help[0])
        (void)json_object_set_new(schema, "description", json_string(row->help));
    return schema;
}

static const struct shape *find_shape(const struct shape *table, const char *name)
{
    while (table->name && strcmp(table->name, name) != 0)
        table++;
    return table;
}

static void add_rows(const struct shape *shape, json_t *properties, json_t *required)
{
    if (shape->base)
        add_rows(find_shape(answer_shapes, shape->base), properties, required);
    for (const struct shape_row *row = shape->rows; row && row->name; row++) {
        (void)json_object_set_new(properties, row->name, member_schema(row));
        if (row->rule != CAN)
            (void)json_array_append_new(required, json_string(row->name));
    }
}

static json_t *shape_schema(const struct shape *shape)
{
    json_t *properties = json_object();
    json_t *required = json_array();
    json_t *schema = typed("object");

    add_rows(shape, properties, required);
    if (json_object_size(properties)) {
        (void)json_object_set(schema, "properties", properties);
        (void)json_object_set(schema, "required", required);
        (void)json_object_set_new(schema, "additionalProperties", json_false());
    }
    json_decref(properties);
    json_decref(required);
    return schema;
}

/* What the daemon remembers of a result. */
static json_t *brief_schema(void)
{
    static const char *const left_out[] = { "stdout", "stderr", "stdout_base64",
                                            "stderr_base64", "files" };
    json_t *schema = schema_result();
    json_t *required = json_object_get(schema, "required");

    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++) {
        (void)json_object_del(json_object_get(schema, "properties"), left_out[i]);
        for (size_t n = json_array_size(required); n-- > 0;)
            if (strcmp(json_string_value(json_array_get(required, n)), left_out[i]) ==
                0)
                (void)json_array_remove(required, n);
    }
    return schema;
}

/* A request's members, and those of a body beside them. */
json_t *shape_request_with(const char *name)
{
    json_t *schema = schema_request();

    add_rows(find_shape(body_shapes, name), json_object_get(schema, "properties"),
             NULL);
    return schema;
}

json_t *shape_schemas(void)
{
    json_t *all = json_pack("{s:o, s:o, s:o}", "request", schema_request(), "result",
                            schema_result(), "result_brief", brief_schema());

    for (const struct shape *s = body_shapes; s->name; s++)
        (void)json_object_set_new(all, s->name, shape_schema(s));
    for (const struct shape *s = answer_shapes; s->name; s++)
        (void)json_object_set_new(all, s->name, shape_schema(s));
    return all;
}
