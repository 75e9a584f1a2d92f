/* SPDX-License-Identifier: Apache-2.0 */
#include "wires/additional_files.h"

#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "model/request.h"
#include "wires/wires.h"

#define UNPACK_MS    20000
#define UNPACK_BYTES (INT64_C(256) << 20)

bool additional_files_work(struct call *c)
{
    auto_str struct str version = { 0 };

    return wires_version(c, "python", &version);
}

void additional_files_done(struct additional_files *f)
{
    json_decref(f->list);
    stage_done(&f->told);
}

static int unpack_request(struct call *c, const struct blob *zip,
                          struct vial_request **out, struct vial_error *err)
{
    const struct blob *script = &c->serve->wires->unzip;
    auto_vial_request struct vial_request *req = NULL;

    if (vial_request_new(&req, err) < 0 ||
        vial_request_set(req, "language", "python", err) < 0 ||
        vial_request_set_bytes(req, "code", script->data, script->len, err) < 0 ||
        vial_request_set_bytes(req, "stdin", zip->data ? zip->data : "", zip->len,
                               err) < 0 ||
        vial_request_set(req, "network", "none", err) < 0 ||
        program_limit(req, FIELD_ID_timeout,
                      program_most(c, FIELD_ID_timeout, UNPACK_MS), err) < 0 ||
        program_limit(req, FIELD_ID_memory,
                      program_most(c, FIELD_ID_memory, UNPACK_BYTES), err) < 0)
        return -1;
    *out = ptr_take(&req);
    return 0;
}

/* What the program said on stderr, on one line; or how it ended. */
static int refuse(const struct stage *s, struct vial_error *err)
{
    size_t len = s->err.len ? strcspn(s->err.data, "\n") : 0;

    if (s->verdict == VIAL_NONZERO && len > 0 && len < 200 &&
        text_is_utf8(s->err.data, len))
        return fail(err, VIAL_E_VALUE, "additional_files: %.*s", (int)len, s->err.data);
    return fail(err, VIAL_E_VALUE, "additional_files cannot be unpacked: %s",
                vial_verdict_name(s->verdict));
}

static bool is_entry(const json_t *entry)
{
    return json_array_size(entry) == 3 && json_is_string(json_array_get(entry, 0)) &&
           json_is_integer(json_array_get(entry, 1)) &&
           json_is_string(json_array_get(entry, 2));
}

static int read_list(const struct str *text, json_t **out, struct vial_error *err)
{
    auto_json json_t *list = NULL;

    if (json_parse(text->data ? text->data : "", text->len, "additional_files", &list,
                   err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!is_entry(json_array_get(list, i)))
            return fail(err, VIAL_E_VALUE, "additional_files cannot be read");
    *out = ptr_take(&list);
    return 0;
}

int additional_files_unpack(struct call *c, int cancel_fd, const struct blob *zip,
                            struct additional_files *out, struct vial_error *err)
{
    auto_vial_request struct vial_request *req = NULL;
    auto_outcome struct outcome o = { 0 };
    struct program p = { .call = c, .cancel_fd = cancel_fd };

    if (unpack_request(c, zip, &req, err) < 0)
        return -1;
    p.req = req;
    if (program_run(&p, &o, err) < 0)
        return -1;
    if (!o.run.there || o.run.verdict != VIAL_OK)
        return refuse(&o.run, err);
    out->told = o.run;
    o.run = (struct stage){ 0 };
    if (read_list(&out->told.out, &out->list, err) < 0)
        return -1;
    str_done(&out->told.out); /* the list is paid for in its stead */
    out->told.out = (struct str){ 0 };
    return 0;
}

static const char *name_at(const struct additional_files *f, size_t i)
{
    return json_string_value(json_array_get(json_array_get(f->list, i), 0));
}

static int content_at(const struct additional_files *f, size_t i, struct blob *out,
                      struct vial_error *err)
{
    const json_t *text = json_array_get(json_array_get(f->list, i), 2);

    if (json_string_length(text) == 0)
        return blob_set(out, "", 0) < 0 ? fail_memory(err) : 0;
    if (text_unbase64(json_string_value(text), json_string_length(text), out) < 0)
        return fail(err, VIAL_E_VALUE, "additional_files cannot be read");
    return 0;
}

static const char *code_name(struct call *c, const struct vial_request *req)
{
    const struct language *language = NULL;

    if (req->words.file)
        return req->words.file;
    if (language_find(&c->gen->settings->languages, req->language, &language, NULL) < 0)
        return "";
    return language->file;
}

int additional_files_put(struct call *c, const struct additional_files *f,
                         struct vial_request *req, struct vial_error *err)
{
    for (size_t i = 0; i < json_array_size(f->list); i++) {
        json_t *entry = json_array_get(f->list, i);
        unsigned mode = (unsigned)json_integer_value(json_array_get(entry, 1)) & 0777u;
        auto_blob struct blob content = { 0 };

        if (str_eq(name_at(f, i), code_name(c, req)))
            continue;
        if (content_at(f, i, &content, err) < 0 ||
            program_file(req, name_at(f, i), content.data, content.len, mode, err) < 0)
            return -1;
    }
    return 0;
}

static bool has(const struct additional_files *f, const char *name)
{
    bool found = false;

    for (size_t i = 0; i < json_array_size(f->list); i++)
        found = found || str_eq(name_at(f, i), name);
    return found;
}

int additional_files_lead(const struct additional_files *f, struct vial_request *req,
                          struct vial_error *err)
{
    if (!has(f, "run"))
        return fail(err, VIAL_E_VALUE, "additional_files has no script 'run'");
    if (!has(f, "compile")) {
        strv_done(&req->words.compile_argv);
        req->words.compile_argv = (struct strv){ 0 };
        req->words.interpreted = true;
    }
    return 0;
}
