/* SPDX-License-Identifier: Apache-2.0 */

/* How the answer of a preset's tool reads, in the words of the preset. */

#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "mcp/preset.h"
#include "mcp/settings_text.h"
#include "model/value.h"

/* Whether there is a value for what a line names first: after an error there are few.
 */
static bool is_known(const struct preset_job *job, const json_t *line)
{
    const char *hole = strchr(preset_text(line, "show"), '{');

    return !hole || json_object_getn(job->values, hole + 1, strcspn(hole + 1, "}"));
}

/* A text begins on a line of its own. */
static void add_text(struct str *out, const struct preset_job *job, const char *show)
{
    while (out->len > 0 && out->data[out->len - 1] == '\n')
        out->data[--out->len] = '\0';
    if (out->len > 0)
        str_putc(out, '\n');
    mcp_expand(out, show, job->values);
}

/* How each end reads where the tool has no words of its own for it: whatever a preset
 * says or leaves out, none is silent. */
static void add_endings(struct str *out, const struct preset_job *job,
                        const json_t *lines)
{
    static const struct {
        const char *when, *show;
    } usual[] = {
        { "error", "Error: {error} [{code}]" },
        { "remedy", "{remedy}" },
        { "nonzero", "[exit code: {exit_code}]" },
        { "signal", "[killed by signal {signal}]" },
        { "timeout", "[timed out after {timeout} s]" },
        { "cpu_timeout", "[killed: the limit of cpu time was reached]" },
        { "oom", "[killed: out of memory]" },
        { "disk", "[killed: the disk limit was reached]" },
        { "pids", "[killed: the limit of processes was reached]" },
        { "renewed", "[the container was made anew: earlier calls had left {renewed} "
                     "processes in it]" },
        { "output_limit", "[killed: it printed more than is allowed]" },
    };

    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const json_t *line = NULL;
        bool told = !json_object_get(job->flags, usual[i].when);
        size_t at = 0;

        json_array_foreach(lines, at, line)
        {
            told = told || str_eq(preset_text(line, "when"), usual[i].when);
        }
        if (!told)
            add_text(out, job, usual[i].show);
    }
}

/* A template whose leaves are names of values. */
static json_t *pick(const struct preset_job *job, json_t *shape)
{
    json_t *object = NULL;

    if (json_is_string(shape)) {
        json_t *value = json_object_get(job->values, json_string_value(shape));

        return value ? json_incref(value) : json_null();
    }
    object = json_object();
    for (void *at = json_object_iter(shape); at; at = json_object_iter_next(shape, at))
        (void)json_object_set_new(object, json_object_iter_key(at),
                                  pick(job, json_object_iter_value(at)));
    return object;
}

/* Whether another driver may stand in for the preset's, and this answer says so. */
static bool may_stand_in(const json_t *answer)
{
    const json_t *lines = json_object_get(answer, "text");

    for (size_t i = 0; i < json_array_size(lines); i++)
        if (str_eq(preset_text(json_array_get(lines, i), "when"), "fallback"))
            return true;
    return false;
}

void preset_answer(struct preset_job *job, struct mcp_answer *answer)
{
    const json_t *form = json_object_get(job->tool->tool, "answer");
    json_t *lines = json_object_get(form, "text");
    json_t *shape = json_object_get(form, "json");
    json_t *line = NULL;
    size_t i = 0;

    json_array_foreach(lines, i, line)
    {
        const char *when = preset_text(line, "when");

        if (when ? json_object_get(job->flags, when) != NULL : is_known(job, line))
            add_text(&answer->text, job, preset_text(line, "show"));
    }
    add_endings(&answer->text, job, lines);
    str_add(&answer->text, job->notes.data ? job->notes.data : "", job->notes.len);
    if (json_array_size(job->images) > 0) {
        answer->content =
            json_pack("[{s:s, s:o}]", "type", "text", "text",
                      value_text_json(answer->text.data ? answer->text.data : "",
                                      answer->text.len));
        (void)json_array_extend(answer->content, job->images);
    }
    answer->is_error = job->failed;
    if (shape)
        answer->structured = pick(job, shape);
    if (shape && may_stand_in(form) && json_object_get(job->flags, "fallback"))
        (void)json_object_set(answer->structured, "warning",
                              json_object_get(job->values, "warning"));
}

/* What kind of value each name has; all may be null where there is none. */
static json_t *leaf_schema(const char *name)
{
    static const struct {
        const char *name, *type;
    } kinds[] = {
        { "exit_code", "integer" },
        { "timed_out", "boolean" },
        { "truncated", "boolean" },
        { "duration", "number" },
        { "duration_ms", "number" },
        { "timeout", "number" },
        { "removed", "integer" },
        { "items", "array" },
        { "files", "array" },
        { "done", "boolean" },
        { "network_refused", "integer" },
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return json_pack("{s:[s, s]}", "type", kinds[i].type, "null");
    return json_pack("{s:[s, s]}", "type", "string", "null");
}

static json_t *shape_schema(json_t *shape)
{
    json_t *properties = json_object();
    json_t *required = json_array();

    if (json_is_string(shape)) {
        json_decref(properties);
        json_decref(required);
        return leaf_schema(json_string_value(shape));
    }
    for (void *at = json_object_iter(shape); at;
         at = json_object_iter_next(shape, at)) {
        const char *name = json_object_iter_key(at);

        (void)json_object_set_new(properties, name,
                                  shape_schema(json_object_iter_value(at)));
        (void)json_array_append_new(required, json_string(name));
    }
    return json_pack("{s:s, s:o, s:o, s:b}", "type", "object", "properties", properties,
                     "required", required, "additionalProperties", 0);
}

json_t *preset_output(const json_t *tool)
{
    const json_t *answer = json_object_get(tool, "answer");
    json_t *shape = json_object_get(answer, "json");
    json_t *schema = shape ? shape_schema(shape) : NULL;

    if (schema && may_stand_in(answer))
        (void)json_object_set_new(json_object_get(schema, "properties"), "warning",
                                  json_pack("{s:s}", "type", "string"));
    return schema;
}
