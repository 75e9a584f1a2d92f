/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/fusion_words.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "model/request.h"
#include "model/value.h"
#include "wires/faces.h"
#include "wires/fusion_tmp.h"
#include "wires/verdict_words.h"
#include "wires/wires.h"

#define MIB        INT64_C(1048576)
#define NO_PROGRAM 127 /* a shell's status */

void fusion_refuse_text(struct call *c, unsigned status, const char *text)
{
    call_json(c, status, json_pack("{s:s}", "detail", text));
}

static void refuse_at(struct call *c, json_t *loc, const char *type,
                      const char *message, json_t *input)
{
    call_json(c, 422,
              json_pack("{s:[{s:s, s:o, s:s, s:o}]}", "detail", "type", type, "loc",
                        loc, "msg", message, "input", input));
}

void fusion_refuse_member(struct call *c, const char *name, const char *type,
                          const char *message)
{
    json_t *value = json_object_get(c->body, name);
    bool small = value && !json_is_object(value) && !json_is_array(value) &&
                 json_string_length(value) < 256;

    refuse_at(c, json_pack("[s, s]", "body", name), type, message,
              small ? json_incref(value) : json_null());
}

void fusion_refuse(struct call *c, unsigned status, const struct vial_error *err)
{
    if (status == 503 || status == 429)
        status = 504; /* what its clients try again, once they are told so */
    fusion_refuse_text(c, status == 405 ? 404 : status, err->message);
}

static bool fits(const json_t *value, enum fusion_kind kind)
{
    switch (kind) {
    case FUSION_TEXT_OR_NULL:
        return json_is_string(value) || json_is_null(value);
    case FUSION_TEXT:
        return json_is_string(value);
    case FUSION_NUMBER:
        return json_is_number(value);
    case FUSION_INTEGER:
        return json_is_integer(value);
    case FUSION_OBJECT:
        return json_is_object(value);
    case FUSION_LIST:
        break;
    }
    return json_is_array(value);
}

static void refuse_kind(struct call *c, const struct fusion_member *m)
{
    static const char *const words[][2] = {
        [FUSION_TEXT] = { "string_type", "Input should be a valid string" },
        [FUSION_TEXT_OR_NULL] = { "string_type", "Input should be a valid string" },
        [FUSION_NUMBER] = { "float_type", "Input should be a valid number" },
        [FUSION_INTEGER] = { "int_type", "Input should be a valid integer" },
        [FUSION_OBJECT] = { "dict_type", "Input should be a valid dictionary" },
        [FUSION_LIST] = { "list_type", "Input should be a valid list" },
    };

    fusion_refuse_member(c, m->name, words[m->kind][0], words[m->kind][1]);
}

bool fusion_body(struct call *c, const struct fusion_member *members)
{
    struct vial_error err;

    if (call_body(c, &err) < 0) {
        refuse_at(c, json_pack("[s, i]", "body", 0), "json_invalid",
                  "JSON decode error", json_object());
        return false;
    }
    for (const struct fusion_member *m = members; m->name; m++) {
        const json_t *value = json_object_get(c->body, m->name);

        if (!value && m->needed) {
            fusion_refuse_member(c, m->name, "missing", "Field required");
            return false;
        }
        if (value && !fits(value, m->kind)) {
            refuse_kind(c, m);
            return false;
        }
    }
    return true;
}

json_t *fusion_language(struct call *c, const char *name)
{
    json_t *table =
        json_object_get(c->serve->wires->languages, face_sandboxfusion.name);
    json_t *entry = json_object_get(table, name);
    auto_str struct str message = { 0 };
    const char *key;
    json_t *value;

    if (entry)
        return entry;
    json_object_foreach(table, key, value)
    {
        str_printf(&message, "%s'%s'", message.len ? ", " : "Input should be ", key);
    }
    fusion_refuse_member(c, "language", "literal_error",
                         str_ok(&message) ? message.data : "");
    return NULL;
}

int64_t fusion_ms(json_t *seconds, int64_t usual_s)
{
    double s = json_is_number(seconds) ? json_number_value(seconds) : (double)usual_s;

    return s * 1000.0 < 1.0 ? 1 : s > 1e6 ? INT64_C(1000000000) : (int64_t)(s * 1000.0);
}

static int put_file(struct vial_request *req, const char *name, const json_t *value,
                    struct vial_error *err)
{
    struct blob content = { 0 };
    int rc;

    if (!json_is_string(value) ||
        wires_unbase64(json_string_value(value), json_string_length(value), &content) <
            0)
        return fail(err, VIAL_E_VALUE, "file '%.200s' is not base64", name);
    rc = program_file(req, name, content.data ? content.data : "", content.len, 0644,
                      err);
    blob_done(&content);
    return rc;
}

static int put_outputs(struct vial_request *req, json_t *names, struct vial_error *err)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = value_string(json_array_get(names, i));
        const char *path = name ? program_path(name) : NULL;

        if (!path)
            return fail(err, VIAL_E_PATH, "file '%.200s' lies outside /work",
                        name ? name : "");
        if (vial_request_set(req, "outputs", path, err) < 0)
            return -1;
    }
    return 0;
}

/* Below /tmp, if it is there that NAME leads and IN_TMP says so. */
static int place_file(struct vial_request *req, const char *name, const json_t *value,
                      bool in_tmp, struct vial_error *err)
{
    auto_str struct str path = { 0 };

    if (json_is_null(value))
        return 0;
    if (!in_tmp || !fusion_tmp_path(name, &path))
        return put_file(req, name, value, err);
    return str_ok(&path) ? put_file(req, path.data, value, err) : fail_memory(err);
}

int fusion_fill(struct vial_request *req, json_t *body, bool in_tmp,
                struct vial_error *err)
{
    json_t *files = json_object_get(body, "files");
    int64_t mib = json_integer_value(json_object_get(body, "memory_limit_MB"));
    const char *name;
    json_t *value;

    if (mib > 0 &&
        program_limit(req, FIELD_ID_memory, mib < (1 << 20) ? mib * MIB : 1, err) < 0)
        return -1;
    json_object_foreach(files, name, value)
    {
        if (place_file(req, name, value, in_tmp, err) < 0)
            return -1;
    }
    return put_outputs(req, json_object_get(body, "fetch_files"), err);
}

static json_t *text_of(struct fusion_answer *a, const struct str *s)
{
    a->bytes += s->len;
    return json_large(&a->larges, s->data ? s->data : "", s->len, false);
}

json_t *fusion_file(struct fusion_answer *a, const char *data, size_t len)
{
    a->bytes += len;
    return json_large(&a->larges, data, len, true);
}

static json_t *return_code(const struct stage *s)
{
    switch (verdict_words[s->verdict].by) {
    case BY_EXIT:
        return json_integer(s->exit_code);
    case BY_SIGNAL:
        return json_integer(-s->signal);
    case BY_KILL:
        return json_integer(-9);
    case BY_DEADLINE:
    case BY_OTHERS:
        break;
    }
    return json_null();
}

static json_t *stage_json(struct fusion_answer *a, const struct stage *s)
{
    if (!s->there)
        return json_null();
    return json_pack("{s:s, s:f, s:o, s:o, s:o}", "status",
                     verdict_words[s->verdict].fusion, "execution_time",
                     s->wall_ms / 1000.0, "return_code", return_code(s), "stdout",
                     text_of(a, &s->out), "stderr", text_of(a, &s->err));
}

/* Which limit it was: the status has no word for that. */
static const char *message_of(const struct stage *s)
{
    if (verdict_words[s->verdict].by == BY_KILL)
        return vial_verdict_name(s->verdict);
    return verdict_words[s->verdict].by == BY_OTHERS ? s->error.message : "";
}

/* By the names that they were asked for with. */
static json_t *files_json(struct fusion_answer *a, const struct stage *s, json_t *names)
{
    json_t *files = json_object();
    const struct vial_result *r = s->result;

    for (size_t i = 0; r && i < r->file_count; i++)
        if (r->files[i].data)
            (void)json_object_set_new(
                files, json_string_value(json_array_get(names, i)),
                fusion_file(a, r->files[i].data, r->files[i].len));
    return files;
}

/* A shell came before the compiler, and has not found it: no compiler says so itself.
 */
static bool lacks_compiler(const struct stage *last, const struct outcome *o)
{
    return last == &o->compile && last->verdict == VIAL_NONZERO &&
           last->exit_code == NO_PROGRAM;
}

json_t *fusion_outcome(struct fusion_answer *a, const struct outcome *o, json_t *names)
{
    const struct stage *last = o->run.there ? &o->run : &o->compile;
    const char *status = last->verdict == VIAL_OK ? "Success" : "Failed";
    const char *message = message_of(last);

    if (lacks_compiler(last, o))
        message = "its compiler is not installed here";
    if (verdict_words[last->verdict].by == BY_OTHERS || lacks_compiler(last, o))
        status = "SandboxError";
    return json_pack("{s:s, s:s, s:o, s:o, s:n, s:o}", "status", status, "message",
                     message, "compile_result", stage_json(a, &o->compile),
                     "run_result", stage_json(a, &o->run), "executor_pod_name", "files",
                     files_json(a, last, names));
}

json_t *fusion_fault(const struct vial_error *err)
{
    auto_str struct str message = { 0 };

    str_printf(&message, "%s%s%s", err->message, err->remedy[0] ? ": " : "",
               err->remedy);
    return json_pack("{s:s, s:s, s:n, s:n, s:n, s:{}}", "status", "SandboxError",
                     "message", str_ok(&message) ? message.data : "", "compile_result",
                     "run_result", "executor_pod_name", "files");
}

void fusion_send(struct call *c, struct fusion_answer *a, json_t *json)
{
    const struct call_tree tree = { .json = json,
                                    .larges = &a->larges,
                                    .bytes = a->bytes,
                                    .style = JSON_STYLE_COMPACT };

    call_tree(c, 200, &tree, NULL);
    json_decref(json);
    json_larges_done(&a->larges);
}

bool fusion_at_fault(const struct vial_error *err)
{
    unsigned status = call_status_of(err);

    return status == 400 || status == 403;
}

void fusion_not_run(struct call *c, const struct vial_error *err)
{
    if (fusion_at_fault(err)) {
        (void)call_turned_away(c, err);
        refuse_at(c, json_pack("[s]", "body"), "value_error", err->message,
                  json_null());
    } else if (program_is_late(err)) {
        face_refuse(c, &face_sandboxfusion, err);
    } else {
        call_json(c, 200, fusion_fault(err));
    }
}
