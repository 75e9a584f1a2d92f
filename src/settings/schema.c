/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/schema.h"

#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"
#include "model/fields.h"
#include "model/policy.h"
#include "model/result.h"
#include "model/value.h"
#include "settings/blocks.h"
#include "settings/secret_block.h"

#define DIALECT      "https://json-schema.org/draft/2020-12/schema"
#define NAME_PATTERN "^[A-Za-z_][A-Za-z0-9_]*$"
#define MODE_PATTERN "^[0-7]{1,4}$"

static json_t *typed(const char *type)
{
    return json_pack("{s:s}", "type", type);
}

static json_t *nullable(const char *type)
{
    return json_pack("{s:[s, s]}", "type", type, "null");
}

static json_t *names(const char *const *list)
{
    json_t *array = json_array();

    for (; *list; list++)
        (void)json_array_append_new(array, json_string(*list));
    return json_pack("{s:s, s:o}", "type", "string", "enum", array);
}

static json_t *choices(const char *list)
{
    const char *end = list + value_choices_told(list);
    json_t *array = json_array();

    while (list < end) {
        size_t len = strcspn(list, "|");

        (void)json_array_append_new(array, json_stringn(list, len));
        list += len + 1;
    }
    return json_pack("{s:s, s:o}", "type", "string", "enum", array);
}

/* An object that has these members and no other; all of them are required
 * unless their name ends in '?'. Takes the values. */
static json_t *object_of(size_t count, const char *const *members,
                         json_t *const *values)
{
    json_t *properties = json_object();
    json_t *required = json_array();

    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(members[i]);
        bool optional = members[i][len - 1] == '?';

        if (!optional)
            (void)json_array_append_new(required, json_string(members[i]));
        (void)json_object_setn_new(properties, members[i], optional ? len - 1 : len,
                                   values[i]);
    }
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties,
                     "required", required, "additionalProperties", 0);
}

#define COUNT(array)               (sizeof(array) / sizeof((array)[0]))
#define OBJECT_OF(members, values) object_of(COUNT(members), members, values)

static json_t *list_of(json_t *items)
{
    return json_pack("{s:s, s:o}", "type", "array", "items", items);
}

/* A number in JSON's unit: seconds, bytes, cores. */
static json_t *scaled(const struct field *f, int64_t value)
{
    bool thousandths = f->type == FIELD_MS || f->type == FIELD_MILLI;

    if (thousandths && value % 1000)
        return json_real((double)value / 1000);
    return json_integer(thousandths ? value / 1000 : value);
}

static json_t *number_schema(const struct field *f)
{
    static const char *const patterns[] = {
        [FIELD_MS] = "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)?$",
        [FIELD_BYTES] = "^[0-9]+(\\.[0-9]+)?([kKmMgGtT]([iI]?[bB])?)?$",
        [FIELD_MILLI] = "^[0-9]+(\\.[0-9]+)?$",
    };
    const char *type =
        f->type == FIELD_MS || f->type == FIELD_MILLI ? "number" : "integer";
    json_t *number = json_pack("{s:s, s:o, s:o}", "type", type, "minimum",
                               scaled(f, f->min), "maximum", scaled(f, f->max));

    if (f->type == FIELD_COUNT_)
        return number;
    return json_pack("{s:[o, {s:s, s:s}]}", "anyOf", number, "type", "string",
                     "pattern", patterns[f->type]);
}

static json_t *list_schema(const struct field *f)
{
    json_t *schema = list_of(f->choices ? choices(f->choices) : typed("string"));

    (void)json_object_set_new(schema, "maxItems", json_integer(f->max));
    return schema;
}

static json_t *map_schema(void)
{
    return json_pack("{s:s, s:{s:s}, s:{s:s}}", "type", "object", "propertyNames",
                     "pattern", NAME_PATTERN, "additionalProperties", "type", "string");
}

static json_t *files_schema(const struct field *f)
{
    static const char *const members[] = { "path", "content?", "content_base64?",
                                           "mode?" };
    json_t *const values[] = { typed("string"), typed("string"), typed("string"),
                               json_pack("{s:s, s:s}", "type", "string", "pattern",
                                         MODE_PATTERN) };
    json_t *file = OBJECT_OF(members, values);

    (void)json_object_set_new(file, "oneOf",
                              json_pack("[{s:[s]}, {s:[s]}]", "required", "content",
                                        "required", "content_base64"));
    return json_pack("{s:s, s:o, s:I}", "type", "array", "items", file, "maxItems",
                     (json_int_t)f->max);
}

static json_t *mounts_schema(const struct field *f)
{
    static const char *const members[] = { "source", "target", "mode?" };
    json_t *const values[] = {
        json_pack("{s:s, s:s}", "type", "string", "pattern", "^/"),
        json_pack("{s:s, s:s}", "type", "string", "pattern", "^/"), choices("ro|rw")
    };

    return json_pack("{s:s, s:{s:[{s:s, s:s}, o]}, s:I}", "type", "array", "items",
                     "anyOf", "type", "string", "pattern", "^/[^:]*:/.*$",
                     OBJECT_OF(members, values), "maxItems", (json_int_t)f->max);
}

static json_t *name_schema(const struct field *f)
{
    return json_pack("{s:s, s:i, s:I}", "type", "string", "minLength", 1, "maxLength",
                     (json_int_t)f->max);
}

static json_t *by_type(const struct field *f)
{
    switch (f->type) {
    case FIELD_TEXT:
        return typed("string");
    case FIELD_NAME:
        return name_schema(f);
    case FIELD_CHOICE:
        return choices(f->choices);
    case FIELD_BOOL:
        return typed("boolean");
    case FIELD_COUNT_:
    case FIELD_MS:
    case FIELD_BYTES:
    case FIELD_MILLI:
        return number_schema(f);
    case FIELD_LIST:
        return list_schema(f);
    case FIELD_MAP:
        return map_schema();
    case FIELD_FILES:
        return files_schema(f);
    case FIELD_MOUNTS:
        return mounts_schema(f);
    }
    return NULL;
}

/* A count has no text form. */
static json_t *default_json(const struct field *f)
{
    int64_t value;

    if (f->type == FIELD_COUNT_ &&
        value_parse(f, f->def, strlen(f->def), &value, NULL) == 0)
        return json_integer(value);
    return json_string(f->def);
}

json_t *schema_field(const struct field *f)
{
    json_t *schema = by_type(f);

    (void)json_object_set_new(schema, "description", json_string(f->help));
    if (f->def)
        (void)json_object_set_new(schema, "default", default_json(f));
    return schema;
}

static json_t *fields_schema(unsigned scope)
{
    json_t *properties = json_object();

    for (size_t i = 0; i < FIELD_ID__COUNT; i++)
        if ((fields[i].scope & scope) == scope)
            (void)json_object_set_new(properties, fields[i].name,
                                      schema_field(&fields[i]));
    return json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties,
                     "additionalProperties", 0);
}

/* With the dialect and a title in front. */
static json_t *titled(const char *title, json_t *schema)
{
    json_t *root = json_pack("{s:s, s:s}", "$schema", DIALECT, "title", title);
    int rc = root && schema ? json_object_update(root, schema) : -1;

    json_decref(schema);
    if (rc == 0)
        return root;
    json_decref(root);
    return NULL;
}

json_t *schema_request(void)
{
    return titled("vial request", fields_schema(FIELD_IN_REQUEST));
}

static json_t *policy_schema(void)
{
    json_t *properties = json_object();

    for (size_t i = 0; i < POLICY_ID__COUNT; i++) {
        struct field f = policy_range((enum policy_id)i);

        (void)json_object_set_new(properties, f.name, schema_field(&f));
    }
    return json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties,
                     "additionalProperties", 0);
}

static json_t *block_schema(const struct block *b)
{
    json_t *properties = json_object();

    for (size_t i = 0; i < b->count; i++) {
        const struct field *f = &b->rows[i].field;
        json_t *schema = schema_field(f);

        if (f->type == FIELD_LIST) /* or one alone */
            (void)json_object_set_new(schema, "type",
                                      json_pack("[s, s, s*]", "array", "string",
                                                b->rows[i].pairs ? "object" : NULL));
        if (b->rows[i].pairs)
            (void)json_object_set_new(schema, "additionalProperties", typed("string"));
        (void)json_object_set_new(properties, f->name, schema);
    }
    return json_pack("{s:s, s:o, s:b}", "type", "object", "properties", properties,
                     "additionalProperties", 0);
}

static json_t *audit_schema(void)
{
    static const char *const members[] = { "path", "code?", "sync?", "rotate?",
                                           "keep?" };
    json_t *const values[] = {
        json_pack("{s:s, s:s}", "type", "string", "pattern", "^/"),
        choices("hash|text"), choices("each|lazy"),
        json_pack("{s:[s, s]}", "type", "integer", "string"),
        json_pack("{s:s, s:i}", "type", "integer", "minimum", 0)
    };

    return OBJECT_OF(members, values);
}

json_t *schema_settings(void)
{
    static const char *const members[] = { "defaults?",   "policy?",  "audit?",
                                           "cleanup?",    "journal?", "languages?",
                                           "serve?",      "images?",  "secrets?",
                                           "kubernetes?", "volumes?" };
    json_t *const values[] = { fields_schema(FIELD_IN_SETTINGS),
                               policy_schema(),
                               audit_schema(),
                               block_schema(&block_cleanup),
                               block_schema(&block_journal),
                               typed("string"),
                               block_schema(&block_serve),
                               block_schema(&block_images),
                               secret_block_schema(),
                               block_schema(&block_kubernetes),
                               block_schema(&block_volumes) };

    return titled("vial settings", OBJECT_OF(members, values));
}

static json_t *error_schema(void)
{
    static const char *const members[] = { "code", "message", "cause", "remedy" };
    json_t *const values[] = { typed("string"), typed("string"), typed("string"),
                               typed("string") };

    return json_pack("{s:[{s:s}, o]}", "anyOf", "type", "null",
                     OBJECT_OF(members, values));
}

static json_t *all_of(const char *const *members, size_t count, const char *type)
{
    json_t *values[16];

    for (size_t i = 0; i < count && i < COUNT(values); i++)
        values[i] = typed(type);
    return object_of(count, members, values);
}

static json_t *timing_schema(void)
{
    static const char *const members[] = { "queue_ms", "open_ms", "run_ms",
                                           "close_ms" };

    return all_of(members, COUNT(members), "number");
}

static json_t *usage_schema(void)
{
    static const char *const members[] = { "cpu_user_ms",       "cpu_system_ms",
                                           "memory_peak_bytes", "pids_peak",
                                           "throttled_ms",      "read_bytes",
                                           "write_bytes",       "net_rx_bytes",
                                           "net_tx_bytes",      "disk_peak_bytes" };

    return all_of(members, COUNT(members), "number");
}

static json_t *isolation_schema(void)
{
    static const char *const members[] = { "level", "layers", "limits_by" };
    json_t *const values[] = { choices("none|remote|landlock|namespaces|container"),
                               list_of(typed("string")),
                               choices("none|rlimit|cgroup|cgroup1|cgroup2") };

    return OBJECT_OF(members, values);
}

static json_t *out_file_schema(void)
{
    static const char *const members[] = { "path", "bytes", "content",
                                           "content_base64?", "error" };
    json_t *const values[] = { typed("string"), nullable("integer"), nullable("string"),
                               typed("string"), error_schema() };

    return OBJECT_OF(members, values);
}

static json_t *artifact_schema(void)
{
    static const char *const members[] = { "path", "type", "bytes", "sha256",
                                           "content_base64?" };
    json_t *const values[] = { typed("string"), typed("string"), typed("integer"),
                               nullable("string"), typed("string") };

    return OBJECT_OF(members, values);
}

static json_t *connection_schema(void)
{
    static const char *const members[] = {
        "name", "port", "verdict", "bytes_in", "bytes_out", "ms", "times?", "incoming?"
    };
    json_t *const values[] = { typed("string"),  typed("integer"), typed("string"),
                               typed("integer"), typed("integer"), typed("number"),
                               typed("integer"), typed("boolean") };

    return OBJECT_OF(members, values);
}

static json_t *network_schema(void)
{
    static const char *const members[] = { "connections", "left_out",  "made",
                                           "refused",     "bytes_in",  "bytes_out",
                                           "whole",       "over_quota" };
    json_t *const values[] = { list_of(connection_schema()),
                               typed("integer"),
                               typed("integer"),
                               typed("integer"),
                               typed("integer"),
                               typed("integer"),
                               typed("boolean"),
                               typed("integer") };

    return OBJECT_OF(members, values);
}

static const char *const result_members[] = { "id",
                                              "correlation?",
                                              "verdict",
                                              "stage",
                                              "exit_code",
                                              "signal",
                                              "stdout",
                                              "stderr",
                                              "stdout_bytes",
                                              "stderr_bytes",
                                              "stdout_truncated",
                                              "stderr_truncated",
                                              "stdout_base64?",
                                              "stderr_base64?",
                                              "duration_ms",
                                              "timing",
                                              "usage",
                                              "limits_hit",
                                              "network_refused?",
                                              "network?",
                                              "denied_calls?",
                                              "driver",
                                              "vessel_id",
                                              "container_id",
                                              "name",
                                              "image",
                                              "image_digest?",
                                              "image_owners?",
                                              "start",
                                              "isolation",
                                              "files",
                                              "artifacts",
                                              "artifacts_truncated",
                                              "error",
                                              "preset_code?",
                                              "wanted_driver?" };

json_t *schema_result(void)
{
    json_t *const values[] = { typed("string"),
                               typed("string"),
                               names(result_verdicts),
                               choices("compile|run"),
                               nullable("integer"),
                               nullable("string"),
                               typed("string"),
                               typed("string"),
                               typed("integer"),
                               typed("integer"),
                               typed("boolean"),
                               typed("boolean"),
                               typed("string"),
                               typed("string"),
                               typed("number"),
                               timing_schema(),
                               usage_schema(),
                               list_of(names(result_limits)),
                               typed("integer"),
                               network_schema(),
                               typed("object"),
                               nullable("string"),
                               nullable("string"),
                               nullable("string"),
                               nullable("string"),
                               nullable("string"),
                               typed("string"),
                               choices("image|one|nobody"),
                               nullable("string"),
                               isolation_schema(),
                               list_of(out_file_schema()),
                               list_of(artifact_schema()),
                               typed("boolean"),
                               error_schema(),
                               typed("string"),
                               typed("string") };

    return titled("vial result", OBJECT_OF(result_members, values));
}

int schema_find(const char *kind, json_t **out, struct vial_error *err)
{
    static const struct {
        const char *kind;
        json_t *(*make)(void);
    } schemas[] = { { "request", schema_request },
                    { "result", schema_result },
                    { "settings", schema_settings } };

    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++)
        if (strcmp(schemas[i].kind, kind) == 0) {
            *out = schemas[i].make();
            return *out ? 0 : fail_memory(err);
        }
    (void)fail(err, VIAL_E_VALUE, "schema '%s' does not exist", kind);
    return fail_remedy(err, "ask for 'request', 'result' or 'settings'");
}
