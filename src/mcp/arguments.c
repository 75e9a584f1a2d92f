/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/arguments.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

#define DEPTH_MAX 32

struct judge {
    const json_t *root;
    struct str *why; /* NULL while only asking whether it would fit */
    struct str path; /* "files[0].path" */
    int depth;
};

static bool fits(struct judge *j, const json_t *schema, const json_t *value);

__attribute__((format(printf, 2, 3))) static bool bad(struct judge *j,
                                                      const char *format, ...)
{
    va_list args;

    if (!j->why)
        return false;
    if (j->path.len > 0)
        str_printf(j->why, "'%s' ", j->path.data);
    va_start(args, format);
    str_vprintf(j->why, format, args);
    va_end(args);
    return false;
}

static bool is_type(const json_t *value, const char *type)
{
    if (strcmp(type, "string") == 0)
        return json_is_string(value);
    if (strcmp(type, "integer") == 0)
        return json_is_integer(value) ||
               (json_is_real(value) &&
                json_real_value(value) == (double)(json_int_t)json_real_value(value));
    if (strcmp(type, "number") == 0)
        return json_is_number(value);
    if (strcmp(type, "boolean") == 0)
        return json_is_boolean(value);
    if (strcmp(type, "object") == 0)
        return json_is_object(value);
    if (strcmp(type, "array") == 0)
        return json_is_array(value);
    return strcmp(type, "null") == 0 && json_is_null(value);
}

static bool fits_type(struct judge *j, const json_t *type, const json_t *value)
{
    if (json_is_string(type))
        return is_type(value, json_string_value(type)) ||
               bad(j, "must be of type %s", json_string_value(type));
    for (size_t i = 0; i < json_array_size(type); i++)
        if (is_type(value, json_string_value(json_array_get(type, i))))
            return true;
    return !type || bad(j, "has the wrong type");
}

static bool fits_choice(struct judge *j, const json_t *choices, const json_t *value)
{
    auto_str struct str all = { 0 };

    if (!choices)
        return true;
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const json_t *choice = json_array_get(choices, i);

        if (json_equal(choice, value))
            return true;
        str_printf(&all, "%s%s", i ? ", " : "",
                   json_is_string(choice) ? json_string_value(choice) : "…");
    }
    return bad(j, "must be one of: %s", str_ok(&all) && all.data ? all.data : "");
}

static bool within(struct judge *j, const json_t *schema, double n, const char *least,
                   const char *most, const char *unit)
{
    const json_t *min = json_object_get(schema, least);
    const json_t *max = json_object_get(schema, most);

    if (min && n < json_number_value(min))
        return bad(j, "must be at least %.15g%s", json_number_value(min), unit);
    if (max && n > json_number_value(max))
        return bad(j, "must be at most %.15g%s", json_number_value(max), unit);
    return true;
}

static size_t characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static bool fits_text(struct judge *j, const json_t *schema, const json_t *value)
{
    const char *text = json_string_value(value);

    /* Only what names a kind of content is written down as it is. */
    if (strlen(text) != json_string_length(value) &&
        !json_object_get(schema, "contentMediaType"))
        return bad(j, "holds a NUL byte");
    return within(j, schema, (double)characters(text), "minLength", "maxLength",
                  " characters");
}

static bool fits_array(struct judge *j, const json_t *schema, const json_t *value)
{
    const json_t *items = json_object_get(schema, "items");

    if (!within(j, schema, (double)json_array_size(value), "minItems", "maxItems",
                " entries"))
        return false;
    for (size_t i = 0; items && i < json_array_size(value); i++) {
        size_t before = j->path.len;
        bool fit;

        str_printf(&j->path, "[%zu]", i);
        fit = fits(j, items, json_array_get(value, i));
        j->path.len = before;
        if (!fit)
            return false;
        if (j->path.data)
            j->path.data[before] = '\0';
    }
    return true;
}

/* The names of PROPERTIES, for a suggestion. */
static const char *nearest(const json_t *properties, const char *key)
{
    const char *names[65] = { 0 };
    size_t count = 0;
    const char *name;
    json_t *unused;

    json_object_foreach((json_t *)(uintptr_t)properties, name, unused)
    {
        if (unused && count < 64)
            names[count++] = name;
    }
    return text_suggest(key, names);
}

static bool unknown(struct judge *j, const json_t *properties, const char *key)
{
    const char *meant = nearest(properties, key);

    return bad(j, "has no member '%.64s'%s%s%s", key, meant ? "; did you mean '" : "",
               meant ? meant : "", meant ? "'?" : "");
}

static bool fits_member(struct judge *j, const json_t *schema, const char *key,
                        const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *sub = json_object_get(properties, key);
    size_t before = j->path.len;
    bool fit;

    if (!sub && json_is_false(json_object_get(schema, "additionalProperties")))
        return unknown(j, properties, key);
    if (!sub)
        sub = json_object_get(schema, "additionalProperties");
    if (!sub || json_is_true(sub))
        return true;
    str_printf(&j->path, "%s%s", before ? "." : "", key);
    fit = fits(j, sub, value);
    j->path.len = before;
    if (j->path.data)
        j->path.data[before] = '\0';
    return fit;
}

static bool fits_object(struct judge *j, const json_t *schema, const json_t *value)
{
    const json_t *required = json_object_get(schema, "required");
    const char *key;
    json_t *member;

    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));

        if (name && !json_object_get(value, name))
            return bad(j, "lacks the required member '%s'", name);
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (!fits_member(j, schema, key, member))
            return false;
    }
    return true;
}

static bool would_fit(struct judge *j, const json_t *schema, const json_t *value)
{
    struct str *why = j->why;
    bool fit;

    j->why = NULL;
    fit = fits(j, schema, value);
    j->why = why;
    return fit;
}

static size_t count_fits(struct judge *j, const json_t *list, const json_t *value)
{
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(list); i++)
        count += would_fit(j, json_array_get(list, i), value);
    return count;
}

static bool fits_combined(struct judge *j, const json_t *schema, const json_t *value)
{
    const json_t *any = json_object_get(schema, "anyOf");
    const json_t *one = json_object_get(schema, "oneOf");
    const json_t *all = json_object_get(schema, "allOf");
    const json_t *test = json_object_get(schema, "if");

    for (size_t i = 0; i < json_array_size(all); i++)
        if (!fits(j, json_array_get(all, i), value))
            return false;
    if (any && count_fits(j, any, value) == 0)
        return bad(j, "fits none of its forms");
    if (one && count_fits(j, one, value) != 1)
        return bad(j, "must fit exactly one of its forms");
    if (test) {
        const json_t *then =
            json_object_get(schema, would_fit(j, test, value) ? "then" : "else");

        return !then || fits(j, then, value);
    }
    return true;
}

/* "#/$defs/name" only. */
static const json_t *resolve(const struct judge *j, const json_t *schema)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));

    if (!ref)
        return schema;
    return str_starts(ref, "#/$defs/")
               ? json_object_get(json_object_get(j->root, "$defs"), ref + 8)
               : NULL;
}

static bool judge_value(struct judge *j, const json_t *schema, const json_t *value)
{
    const json_t *constant = json_object_get(schema, "const");

    if (!fits_type(j, json_object_get(schema, "type"), value) ||
        !fits_choice(j, json_object_get(schema, "enum"), value))
        return false;
    if (constant && !json_equal(constant, value))
        return bad(j, "has the wrong value");
    if (json_is_string(value) && !fits_text(j, schema, value))
        return false;
    if (json_is_number(value) &&
        !within(j, schema, json_number_value(value), "minimum", "maximum", ""))
        return false;
    if (json_is_array(value) && !fits_array(j, schema, value))
        return false;
    if (json_is_object(value) && !fits_object(j, schema, value))
        return false;
    return fits_combined(j, schema, value);
}

static bool fits(struct judge *j, const json_t *schema, const json_t *value)
{
    bool fit;

    schema = resolve(j, schema);
    if (!json_is_object(schema))
        return !json_is_false(schema) || bad(j, "is not allowed");
    if (j->depth == DEPTH_MAX)
        return bad(j, "is nested too deeply");
    j->depth++;
    fit = judge_value(j, schema, value);
    j->depth--;
    return fit;
}

bool arguments_fit(const json_t *schema, const json_t *value, struct str *why)
{
    struct judge j = { .root = schema, .why = why };
    bool fit = fits(&j, schema, value);

    str_done(&j.path);
    return fit;
}
