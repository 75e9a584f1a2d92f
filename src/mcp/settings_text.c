/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/settings_text.h"

#include <string.h>

#include "base/auto.h"
#include "base/unit.h"
#include "mcp/tools.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

static void add_value(struct str *out, const json_t *value)
{
    if (json_is_string(value))
        str_add(out, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value))
        str_printf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        str_printf(out, "%.6g", json_real_value(value));
    else if (json_is_boolean(value))
        str_puts(out, json_is_true(value) ? "true" : "false");
}

void mcp_expand(struct str *out, const char *text, const json_t *values)
{
    while (*text) {
        size_t len = strcspn(text, "{");
        size_t name = 0;

        str_add(out, text, len);
        text += len;
        if (!*text)
            return;
        name = strcspn(text + 1, "}");
        add_value(out, json_object_getn(values, text + 1, name));
        text += 1 + name + (text[1 + name] == '}');
    }
}

static json_t *amount(double number, const char *unit)
{
    return json_sprintf("%.6g %s%s", number, unit, number == 1 ? "" : "s");
}

static json_t *duration(int64_t ms)
{
    if (ms >= HOUR && ms % HOUR == 0)
        return amount((double)ms / HOUR, "hour");
    if (ms >= MINUTE && ms % MINUTE == 0)
        return amount((double)ms / MINUTE, "minute");
    return amount((double)ms / SECOND, "second");
}

static json_t *size(int64_t bytes)
{
    static const char *const units[] = { "bytes", "KB", "MB", "GB" };
    size_t unit = 0;

    for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    return json_sprintf("%lld %s", (long long)bytes, units[unit]);
}

static json_t *setting(const json_t *config, const char *group, const char *name)
{
    const json_t *row = json_object_get(json_object_get(config, group), name);

    return json_object_get(row, "value");
}

static json_t *list_in_words(const json_t *list)
{
    auto_str struct str text = { 0 };

    for (size_t i = 0; i < json_array_size(list); i++)
        str_printf(&text, "%s%s", i ? ", " : "",
                   json_string_value(json_array_get(list, i)));
    if (!json_is_array(list))
        str_puts(&text, "all"); /* no list: nothing is refused */
    return str_ok(&text) ? json_stringn(text.data ? text.data : "", text.len) : NULL;
}

/* As people read it: settings come as "30s" and "256m". */
static json_t *in_words(json_t *value, char kind)
{
    const char *text = json_string_value(value);
    int64_t number = 0;

    if (kind == 'l')
        return list_in_words(value);
    if (text && kind == 't' && unit_parse_ms(text, &number) == 0)
        return duration(number);
    if (text && kind == 'b' && unit_parse_bytes(text, &number) == 0)
        return size(number);
    if (text && kind == 'n' && unit_parse_bytes(text, &number) == 0)
        return json_integer(number);
    return value ? json_incref(value) : json_null();
}

json_t *mcp_words(const json_t *config)
{
    static const struct {
        const char *word, *group, *name;
        char kind; /* t a time, b bytes, n their number, l a list, - as it is */
    } rows[] = {
        { "timeout", "defaults", "timeout", 't' },
        { "max_timeout", "policy", "max_timeout", 't' },
        { "memory", "defaults", "memory", 'b' },
        { "cpus", "defaults", "cpus", '-' },
        { "pids", "defaults", "pids", '-' },
        { "disk", "defaults", "disk", 'b' },
        { "tmp", "defaults", "tmp", 'b' },
        { "network", "defaults", "network", '-' },
        { "networks", "policy", "networks", 'l' },
        { "output", "defaults", "output_limit", 'b' },
        { "characters", "defaults", "output_limit", 'n' },
        { "workspace_at", "defaults", "workspace_at", '-' },
        { "workspace_mode", "defaults", "workspace_mode", '-' },
    };
    const json_t *keep = json_object_get(config, "keep");
    bool alive = json_is_true(json_object_get(keep, "alive"));
    double idle_s = json_number_value(json_object_get(keep, "idle"));
    json_t *words = json_object();
    int rc = words ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < sizeof rows / sizeof *rows; i++)
        rc = json_object_set_new(
            words, rows[i].word,
            in_words(setting(config, rows[i].group, rows[i].name), rows[i].kind));
    if (rc < 0 ||
        json_object_set_new(
            words, "idle",
            duration(alive ? (int64_t)(idle_s * SECOND) : TOOL_IDLE_MS)) < 0 ||
        json_object_set_new(words, "lease", duration(TOOL_LEASE_MS)) < 0 ||
        json_object_set_new(words, "executions",
                            json_integer(json_integer_value(
                                json_object_get(keep, "executions")))) < 0) {
        json_decref(words);
        return NULL;
    }
    return words;
}

json_t *mcp_without_maximum(json_t *schema, const char *name)
{
    json_t *copy = json_deep_copy(schema);
    json_t *one = json_object_get(json_object_get(copy, "properties"), name);

    if (one)
        (void)json_object_del(one, "maximum");
    return copy;
}
