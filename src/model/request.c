/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "model/field_type.h"
#include "model/value.h"

static const size_t offsets[] = {
#define FIELD(name, ...) offsetof(struct vial_request, name),
#include "model/fields.def"
#undef FIELD
};

void *request_member(struct vial_request *req, enum field_id id)
{
    return (char *)req + offsets[id];
}

const void *request_peek(const struct vial_request *req, enum field_id id)
{
    return (const char *)req + offsets[id];
}

static bool has(const struct vial_request *req, enum field_id id)
{
    return (req->set >> id) & 1u;
}

static void mark(struct vial_request *req, enum field_id id)
{
    req->set |= FIELD_BIT(id);
    req->builtin &= ~FIELD_BIT(id);
}

static bool is_request(const char *where)
{
    return strcmp(where, "request") == 0;
}

static int unknown(const char *name, const char *where, struct vial_error *err)
{
    if (is_request(where))
        return value_unknown(err, "field", name, field_names, " in request");
    return value_unknown(err, "key", name, field_names, " in '%s'", where);
}

static int not_allowed(const struct field *f, const char *where, struct vial_error *err)
{
    return fail(err, VIAL_E_FIELD, "key '%s' in '%s' can only be given by a request",
                f->name, where);
}

static int decode_field(struct vial_request *req, const char *name, json_t *value,
                        unsigned allowed, const char *where, struct vial_error *err)
{
    const struct field *f = field_find(name);

    if (!f)
        return unknown(name, where, err);
    if (allowed && (f->scope & allowed) != allowed)
        return not_allowed(f, where, err);
    if (field_ops_of(f->type)->decode(f, request_member(req, field_id_of(f)), value,
                                      err) < 0)
        return is_request(where) ? -1 : fail_in(err, "%s", where);
    mark(req, field_id_of(f));
    return 0;
}

int request_decode(struct vial_request *req, json_t *object, unsigned allowed,
                   const char *where, struct vial_error *err)
{
    if (!json_is_object(object))
        return fail(err, VIAL_E_VALUE, "%s%s is not an object of fields", where,
                    is_request(where) ? "" : ": defaults");
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at))
        if (decode_field(req, json_object_iter_key(at), json_object_iter_value(at),
                         allowed, where, err) < 0)
            return -1;
    return 0;
}

int request_set_text(struct vial_request *req, enum field_id id, const char *text,
                     size_t len, const char *where, struct vial_error *err)
{
    const struct field *f = &fields[id];

    if (field_ops_of(f->type)->parse(f, request_member(req, id), text, len, err) < 0)
        return is_request(where) ? -1 : fail_in(err, "%s", where);
    mark(req, id);
    return 0;
}

static bool has_words(const struct wording *w)
{
    return w->file || w->compile_argv.count || w->run_argv.count || w->interpreted;
}

static int copy_words(struct wording *to, const struct wording *from)
{
    if (has_words(to) || !has_words(from))
        return 0;
    to->interpreted = from->interpreted;
    strv_copy(&to->compile_argv, &from->compile_argv);
    strv_copy(&to->run_argv, &from->run_argv);
    to->file = from->file ? strdup(from->file) : NULL;
    return strv_ok(&to->compile_argv) && strv_ok(&to->run_argv) &&
                   (!from->file || to->file)
               ? 0
               : -1;
}

void wording_done(struct wording *w)
{
    free(w->file);
    strv_done(&w->compile_argv);
    strv_done(&w->run_argv);
    *w = (struct wording){ 0 };
}

int request_fill(struct vial_request *req, const struct vial_request *from,
                 struct vial_error *err)
{
    if (copy_words(&req->words, &from->words) < 0)
        return fail_memory(err);
    for (size_t i = 0; i < FIELD_ID__COUNT; i++) {
        enum field_id id = (enum field_id)i;
        const struct field_ops *kind = field_ops_of(fields[i].type);

        if (has(req, id) || !has(from, id))
            continue;
        req->set |= FIELD_BIT(i);
        req->builtin |= from->builtin & FIELD_BIT(i);
        if (kind->copy(request_member(req, id), request_peek(from, id)) < 0)
            return fail_memory(err);
    }
    return 0;
}

void request_unset(struct vial_request *req, enum field_id id)
{
    field_ops_of(fields[id].type)->done(request_member(req, id));
    req->set &= ~FIELD_BIT(id);
    req->builtin &= ~FIELD_BIT(id);
}

int request_join_args(struct vial_request *req, struct vial_error *err)
{
    if (!request_has(req, command) || !request_has(req, args))
        return 0;
    strv_copy(&req->command, &req->args);
    request_unset(req, FIELD_ID_args);
    return strv_ok(&req->command) ? 0 : fail_memory(err);
}

json_t *request_field_json(const struct vial_request *req, enum field_id id)
{
    if (!has(req, id))
        return NULL;
    return field_ops_of(fields[id].type)->json(&fields[id], request_peek(req, id));
}

static int64_t bytes_of(const struct file_list *files)
{
    int64_t total = 0;

    for (size_t i = 0; i < files->count; i++)
        total += (int64_t)files->items[i].content.len;
    return total;
}

int64_t request_amount(const struct vial_request *req, enum field_id id)
{
    const void *member = request_peek(req, id);

    if (!has(req, id))
        return 0;
    switch ((int)fields[id].type) {
    case FIELD_TEXT:
        return (int64_t)((const struct blob *)member)->len;
    case FIELD_FILES:
        return bytes_of(member);
    case FIELD_COUNT_:
    case FIELD_MS:
    case FIELD_BYTES:
    case FIELD_MILLI:
        return *(const int64_t *)member;
    default:
        return 0;
    }
}

void request_choice(const struct vial_request *req, enum field_id id, char *out)
{
    auto_str struct str name = { 0 };

    if (has(req, id))
        value_choice_name(&name, fields[id].choices,
                          *(const int *)request_peek(req, id));
    (void)snprintf(out, 32, "%s", name.data ? name.data : "");
}

void request_done(struct vial_request *req)
{
    for (size_t i = 0; i < FIELD_ID__COUNT; i++)
        field_ops_of(fields[i].type)->done(request_member(req, (enum field_id)i));
    wording_done(&req->words);
    req->set = 0;
    req->builtin = 0;
}
