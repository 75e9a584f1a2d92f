/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/settings_text.h"

#include <string.h>

#include "base/auto.h"
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

static json_t *networks(const struct policy *policy)
{
    auto_str struct str text = { 0 };

    if (!((policy->set >> POLICY_ID_networks) & 1u))
        return json_string("all"); /* no list: nothing is refused */
    for (size_t i = 0; i < policy->networks.count; i++)
        str_printf(&text, "%s%s", i ? ", " : "", policy->networks.items[i]);
    return str_ok(&text) ? json_stringn(text.data ? text.data : "", text.len) : NULL;
}

enum form { AS_TIME, AS_SIZE, AS_BYTES, AS_IT_IS };

static json_t *in_words(const struct vial_request *defaults, enum field_id id,
                        enum form form)
{
    int64_t amount = request_amount(defaults, id);
    json_t *value;

    switch (form) {
    case AS_TIME:
        return duration(amount);
    case AS_SIZE:
        return size(amount);
    case AS_BYTES:
        return json_integer(amount);
    case AS_IT_IS:
        break;
    }
    value = request_field_json(defaults, id);
    return value ? value : json_null();
}

json_t *mcp_words(const struct settings *s)
{
    static const struct {
        const char *word;
        enum field_id id;
        enum form form;
    } rows[] = {
        { "timeout", FIELD_ID_timeout, AS_TIME },
        { "memory", FIELD_ID_memory, AS_SIZE },
        { "cpus", FIELD_ID_cpus, AS_IT_IS },
        { "pids", FIELD_ID_pids, AS_IT_IS },
        { "disk", FIELD_ID_disk, AS_SIZE },
        { "tmp", FIELD_ID_tmp, AS_SIZE },
        { "network", FIELD_ID_network, AS_IT_IS },
        { "output", FIELD_ID_output_limit, AS_SIZE },
        { "characters", FIELD_ID_output_limit, AS_BYTES },
        { "workspace_at", FIELD_ID_workspace_at, AS_IT_IS },
        { "workspace_mode", FIELD_ID_workspace_mode, AS_IT_IS },
    };
    int64_t most = policy_cap(&s->policy, FIELD_ID_memory);
    json_t *words = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:I}", "max_timeout",
        duration(policy_cap(&s->policy, FIELD_ID_timeout)), "max_memory",
        size(most < fields[FIELD_ID_memory].max ? most : fields[FIELD_ID_memory].max),
        "networks", networks(&s->policy), "idle",
        duration(s->keep.alive ? s->keep.idle_ms : TOOL_IDLE_MS), "lease",
        duration(TOOL_LEASE_MS), "executions", (json_int_t)s->keep.executions);

    for (size_t i = 0; words && i < sizeof rows / sizeof *rows; i++)
        if (json_object_set_new(words, rows[i].word,
                                in_words(&s->defaults, rows[i].id, rows[i].form)) < 0) {
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
