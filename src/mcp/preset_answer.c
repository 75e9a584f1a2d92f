/* SPDX-License-Identifier: Apache-2.0 */

/* What came of a call of a preset's tool, in the words of the preset. */

#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/text.h"
#include "mcp/preset.h"
#include "mcp/settings_text.h"
#include "mcp/tools.h"
#include "model/result.h"
#include "model/value.h"

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

void preset_tell(struct preset_job *job, const char *name, json_t *value)
{
    (void)json_object_set_new(job->values, name, value);
}

static void flag(struct preset_job *job, const char *name, bool on)
{
    if (on)
        (void)json_object_set_new(job->flags, name, json_true());
}

/* Where the first COUNT characters of UTF-8 end. */
static size_t end_of(const char *data, size_t len, size_t count)
{
    size_t at = 0;

    while (at < len && count > 0) {
        at++;
        while (at < len && ((unsigned char)data[at] & 0xc0) == 0x80)
            at++;
        count--;
    }
    return at;
}

static size_t characters(const char *data, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += ((unsigned char)data[i] & 0xc0) != 0x80;
    return count;
}

/* "{limit}" in NOTE is the limit. */
static void add_note(struct str *out, const char *note, size_t limit)
{
    const char *hole = strstr(note, "{limit}");

    if (!hole) {
        str_puts(out, note);
        return;
    }
    str_printf(out, "%.*s%zu%s", (int)(hole - note), note, limit, hole + 7);
}

size_t preset_limit(const struct preset_job *job)
{
    const json_t *answer = json_object_get(job->tool->tool, "answer");
    const json_t *limit = json_object_get(job->tool->world->words, "characters");

    return json_is_true(json_object_get(answer, "characters"))
               ? (size_t)json_integer_value(limit)
               : 0;
}

/* TEXT cut to KEEP characters, with the tool's note if that was needed. */
static json_t *cut(const struct preset_job *job, const struct str *text, size_t keep,
                   bool *was_cut)
{
    const json_t *answer = json_object_get(job->tool->tool, "answer");
    const char *note = text_of(answer, "note");
    size_t limit = preset_limit(job);
    auto_str struct str out = { 0 };
    size_t len = text->len;

    if (limit > 0)
        len = end_of(text->data ? text->data : "", text->len, keep);
    str_add(&out, text->data ? text->data : "", len);
    if (len < text->len) {
        add_note(&out, note ? note : "\n[truncated at {limit} characters]", limit);
        *was_cut = true;
    }
    return str_ok(&out) ? json_stringn(out.data, out.len) : json_string("");
}

/* Both streams share the limit; stderr has a quarter of it if it needs that. */
static void tell_streams(struct preset_job *job, const struct vial_result *r)
{
    const json_t *answer = json_object_get(job->tool->tool, "answer");
    size_t limit = preset_limit(job);
    bool share = json_is_true(json_object_get(answer, "share"));
    bool truncated = r->out.truncated || r->err.truncated;
    auto_str struct str out = { 0 };
    auto_str struct str err = { 0 };
    size_t keep_out = limit, keep_err = limit;

    text_repair(&out, r->out.data ? r->out.data : "", r->out.len);
    text_repair(&err, r->err.data ? r->err.data : "", r->err.len);
    if (share) {
        size_t has_out = characters(out.data ? out.data : "", out.len);
        size_t has_err = characters(err.data ? err.data : "", err.len);
        size_t room = has_out < limit ? limit - has_out : 0;

        keep_err = room > limit / 4 ? room : limit / 4;
        keep_err = has_err < keep_err ? has_err : keep_err;
        keep_out = limit - keep_err;
    }
    preset_tell(job, "stdout", cut(job, &out, keep_out, &truncated));
    preset_tell(job, "stderr", cut(job, &err, keep_err, &truncated));
    preset_tell(job, "truncated", json_boolean(truncated));
    flag(job, "stdout", out.len > 0);
    flag(job, "stderr", err.len > 0);
    flag(job, "truncated", truncated);
}

/* The code that the tool has for all its failures, or the preset's own for this one,
 * else ours; and ours as the reason, which tells one failure from another. */
static void tell_code(struct preset_job *job, const char *own, const char *verdict)
{
    const json_t *block = job->tool->world->block;
    const json_t *answer = json_object_get(job->tool->tool, "answer");
    const char *code = own[0] ? text_of(answer, "code") : NULL;

    if (!code && own[0])
        code = text_of(json_object_get(block, "errors"), own);
    if (!code && verdict)
        code = text_of(json_object_get(block, "verdicts"), verdict);
    if (!code && own[0])
        code = own;
    preset_tell(job, "code", code ? json_string(code) : json_null());
    preset_tell(job, "reason", own[0] ? json_string(own) : json_null());
    flag(job, "code", code != NULL);
}

static void tell_fault(struct preset_job *job, const struct vial_error *err)
{
    const json_t *words = json_object_get(job->tool->world->block, "messages");
    const char *own = text_of(json_object_get(words, err->code), "remedy");
    const char *remedy = own ? own : err->remedy;
    auto_str struct str message = { 0 };

    str_puts(&message, err->message);
    if (err->cause[0])
        str_printf(&message, ": %s", err->cause);
    if (str_ok(&message))
        preset_tell(job, "error", value_text_json(message.data, message.len));
    preset_tell(job, "remedy", value_text_json(remedy, strlen(remedy)));
    flag(job, "error", true);
    flag(job, "remedy", remedy[0] != '\0');
}

static void tell_status(struct preset_job *job, enum vial_verdict verdict)
{
    const char *name = vial_verdict_name(verdict);
    const json_t *names =
        json_object_get(json_object_get(job->tool->tool, "answer"), "status");
    const char *status = text_of(names, name);

    preset_tell(job, "verdict", json_string(name));
    preset_tell(job, "status", json_string(status ? status : name));
}

void preset_tell_error(struct preset_job *job, const struct vial_error *err)
{
    tell_fault(job, err);
    tell_code(job, err->code, "failed");
    tell_status(job, VIAL_DENIED);
    job->failed = true;
}

/* A shell's word for a program that a signal ended: 128 and the signal's number. */
static json_t *exit_code_of(const struct vial_result *r)
{
    if (r->exit_code < 0 && r->signal == 0)
        return json_null();
    return json_integer(r->exit_code >= 0 ? r->exit_code : 128 + r->signal);
}

/* "SIGSEGV"; the number of one that has no name. */
static json_t *signal_of(const struct vial_result *r)
{
    const char *name = vial_signal_name(r->signal);

    if (r->signal == 0)
        return json_null();
    return name ? json_sprintf("SIG%s", name) : json_sprintf("%d", r->signal);
}

static void tell_end(struct preset_job *job, const struct vial_result *r)
{
    bool late = r->verdict == VIAL_TIMEOUT || r->verdict == VIAL_CPU_TIMEOUT;

    tell_status(job, r->verdict);
    preset_tell(job, "exit_code", exit_code_of(r));
    preset_tell(job, "signal", signal_of(r));
    preset_tell(job, "timed_out", json_boolean(late));
    flag(job, vial_verdict_name(r->verdict), true);
    flag(job, "done", r->verdict == VIAL_OK);
    flag(job, "silent", r->verdict == VIAL_OK && r->out.len == 0 && r->err.len == 0);
    job->failed = mcp_is_failure(r->verdict);
}

void preset_tell_stand_in(struct preset_job *job, const char *driver,
                          const char *wanted)
{
    auto_str struct str text = { 0 };

    if (!wanted[0])
        return;
    result_stand_in(&text, driver, wanted);
    if (str_ok(&text))
        preset_tell(job, "warning", json_string(text.data));
    flag(job, "fallback", true);
}

/* By the engine's number, else by its name, else by ours; null where none was made. */
static json_t *container_of(const struct vial_result *r)
{
    const char *own = r->name[0] ? r->name : r->vessel_id;
    const char *best = r->container_id[0] ? r->container_id : own;

    return best[0] ? json_string(best) : json_null();
}

/* Files that the caller asked for by name: resources, or why they did not come. */
static void tell_brought(struct preset_job *job, const struct vial_result *r,
                         json_t *list)
{
    if (r->file_count > 0 && !job->images)
        job->images = json_array();
    for (size_t i = 0; i < r->file_count; i++) {
        const struct vial_file *f = &r->files[i];
        auto_free char *uri =
            tool_add_file(job->call, r->id, f, &job->notes, job->images);

        json_t *why = f->data
                          ? json_null()
                          : json_sprintf("%s%s%s", f->error.message,
                                         f->error.cause[0] ? ": " : "", f->error.cause);

        (void)json_array_append_new(
            list, json_pack("{s:o, s:I, s:s?, s:o}", "path",
                            value_text_json(f->path, strlen(f->path)), "size",
                            (json_int_t)f->len, "uri", uri, "error", why));
    }
    if (r->file_count > 0)
        mcp_call_changed(job->call, "resources");
}

/* Files that the program made: their names, and images as they are. */
static void tell_made(struct preset_job *job, const struct vial_result *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < r->artifact_count; i++) {
        const struct vial_artifact *a = &r->artifacts[i];

        (void)json_array_append_new(
            list, json_pack("{s:o, s:I, s:s}", "path",
                            value_text_json(a->path, strlen(a->path)), "size",
                            (json_int_t)a->size, "media", a->media));
        if (!job->images)
            job->images = json_array();
        if (a->data)
            tool_add_image(job->images, a->media, a->data, (size_t)a->size);
    }
    tell_brought(job, r, list);
    preset_tell(job, "files", list);
}

void preset_tell_result(struct preset_job *job, const struct vial_result *r,
                        int64_t limit_ms)
{
    tell_streams(job, r);
    tell_end(job, r);
    tell_made(job, r);
    tell_code(job, r->error.code, vial_verdict_name(r->verdict));
    if (r->error.code[0])
        tell_fault(job, &r->error);
    preset_tell(job, "timeout", json_real((double)limit_ms / 1000));
    preset_tell(job, "duration", json_real(r->duration_ms / 1000));
    preset_tell(job, "duration_ms", json_real(r->duration_ms));
    preset_tell(job, "network_refused", json_integer((json_int_t)r->network_refused));
    flag(job, "network", r->network_refused > 0);
    preset_tell(job, "renewed", json_integer(r->renewed));
    flag(job, "renewed", r->renewed > 0);
    preset_tell(job, "driver", json_string(r->driver));
    preset_tell_stand_in(job, r->driver, r->wanted_driver);
    preset_tell(job, "level", json_string(r->level));
    preset_tell(job, "image", r->image ? json_string(r->image) : json_null());
    preset_tell(job, "container", container_of(r));
}

/* Whether there is a value for what a line names first: after an error there are few.
 */
static bool is_known(const struct preset_job *job, const json_t *line)
{
    const char *hole = strchr(text_of(line, "show"), '{');

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
            told = told || str_eq(text_of(line, "when"), usual[i].when);
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
        if (str_eq(text_of(json_array_get(lines, i), "when"), "fallback"))
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
        const char *when = text_of(line, "when");

        if (when ? json_object_get(job->flags, when) != NULL : is_known(job, line))
            add_text(&answer->text, job, text_of(line, "show"));
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
