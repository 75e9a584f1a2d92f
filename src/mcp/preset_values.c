/* SPDX-License-Identifier: Apache-2.0 */

/* What came of a call of a preset's tool: the values and flags that answers name. */

#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/text.h"
#include "mcp/preset.h"
#include "mcp/tools.h"
#include "model/result.h"
#include "model/value.h"

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
    const char *note = preset_text(answer, "note");
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
    const char *code = own[0] ? preset_text(answer, "code") : NULL;

    if (!code && own[0])
        code = preset_text(json_object_get(block, "errors"), own);
    if (!code && verdict)
        code = preset_text(json_object_get(block, "verdicts"), verdict);
    if (!code && own[0])
        code = own;
    preset_tell(job, "code", code ? json_string(code) : json_null());
    preset_tell(job, "reason", own[0] ? json_string(own) : json_null());
    flag(job, "code", code != NULL);
}

static void tell_fault(struct preset_job *job, const struct vial_error *err)
{
    const json_t *words = json_object_get(job->tool->world->block, "messages");
    const char *own = preset_text(json_object_get(words, err->code), "remedy");
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
    const char *status = preset_text(names, name);

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
