/* SPDX-License-Identifier: Apache-2.0 */

/* Whole files, up. A body goes on into the sandbox while it comes, and is nowhere as a
 * whole; at most as large as the setting `body`, packed or not. */

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "e2b/filesystem.h"
#include "model/value.h"
#include "web/gzip.h"
#include "web/multipart.h"

#define PARTS     1000u
#define CUT_SHORT "the form is cut short"

static json_t *written(const char *path, const char *attributes)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    return json_pack("{s:o, s:o, s:s, s:o*}", "path",
                     value_text_json(path, strlen(path)), "name",
                     value_text_json(name, strlen(name)), "type", "file", "metadata",
                     metadata_json(attributes));
}

/* What is brought, and what all of it gets. */
struct upload {
    struct ask *ask;
    struct str attributes;
    json_t *list;          /* of what was written */
    struct gunzip *gunzip; /* it is packed; or NULL */
    struct str piece;
    struct form form;
    bool cut;    /* the form ended within a file */
    bool broken; /* the rest of the body does not come, for NO: */
    struct web_refusal no;
};

/* More of the body, unpacked, behind what OUT has: a form_source. */
static int read_body(void *context, struct str *out)
{
    struct upload *u = context;
    int rc = u->gunzip ? gunzip_read(u->gunzip, out, &u->no)
                       : web_read(u->ask->web, out, &u->no);

    u->broken = rc < 0;
    return rc;
}

/* False: it was refused. */
static bool unpack(struct ask *a, struct upload *u)
{
    const char *coding = web_header(a->web, "Content-Encoding");

    if (!coding || !*coding || strcasecmp(coding, "identity") == 0)
        return true;
    if (strcasecmp(coding, "gzip") != 0) {
        ask_refuse(a, 400, "Content-Encoding '%.32s' is not known; send gzip", coding);
        return false;
    }
    u->gunzip = gunzip_open(a->web);
    if (!u->gunzip)
        ask_refuse(a, 500, "out of memory");
    return u->gunzip != NULL;
}

static int put(struct ask *a, struct upload *u, const char *to,
               const struct inside_source *from, struct connect_error *e)
{
    const struct vial_put_options how = { .attributes = u->attributes.data,
                                          .as_root = a->root };
    auto_str struct str path = { 0 };
    struct connect_error missing;
    struct vial_error err = { 0 };
    json_t *entry;
    size_t i;

    if (box_path(box_home(a), to, &path, e) < 0)
        return -1;
    json_array_foreach(
        u->list, i,
        entry) if (str_eq(json_string_value(json_object_get(entry, "path")),
                          path.data)) return connect_fail(e, CONNECT_INVALID,
                                                          "path '%.256s' comes twice",
                                                          path.data);
    if (entry_is_dir(a, path.data, &missing) > 0)
        return connect_fail(e, CONNECT_INVALID, "path '%.256s' is a directory",
                            path.data);
    if (inside_put(box_session(a->box), path.data, from, &how, &err) < 0)
        return u->cut ? connect_fail(e, CONNECT_INVALID, CUT_SHORT)
                      : connect_from(e, &err);
    return json_array_append_new(u->list, written(path.data, how.attributes)) < 0
               ? connect_fail(e, CONNECT_INTERNAL, "out of memory")
               : 0;
}

static int next_of_part(void *context, const char **data, size_t *len)
{
    struct upload *u = context;
    int rc = form_data(&u->form, data, len);

    u->cut = rc < 0;
    return rc;
}

static int next_of_body(void *context, const char **data, size_t *len)
{
    struct upload *u = context;
    int rc;

    u->piece.len = 0;
    rc = read_body(u, &u->piece);
    *data = u->piece.data;
    *len = u->piece.len;
    return str_ok(&u->piece) ? rc : -1;
}

static int put_parts(struct ask *a, struct upload *u, struct connect_error *e)
{
    const struct inside_source from = { next_of_part, u };
    const char *path = web_query(a->web, "path");
    struct part part;
    unsigned count = 0;
    int rc;

    while ((rc = form_next(&u->form, &part)) > 0) {
        const char *to = path && *path ? path : part.filename;

        if (strcmp(part.name, "file") != 0)
            continue;
        if (!*to)
            return connect_fail(e, CONNECT_INVALID, "a part has no file name");
        if (++count > PARTS)
            return connect_fail(e, CONNECT_INVALID, "there are more than %u files",
                                PARTS);
        if (put(a, u, to, &from, e) < 0)
            return -1;
    }
    return rc < 0 ? connect_fail(e, CONNECT_INVALID, CUT_SHORT) : 0;
}

static int take_body(struct ask *a, struct upload *u, struct connect_error *e)
{
    const struct inside_source whole = { next_of_body, u };
    const char *type = web_header(a->web, "Content-Type");
    const char *path = web_query(a->web, "path");

    if (type && strncasecmp(type, "application/octet-stream", 24) == 0)
        return path && *path ? put(a, u, path, &whole, e)
                             : connect_fail(e, CONNECT_INVALID, "'path' is missing");
    if (!type || !form_begin(&u->form, type, read_body, u))
        return connect_fail(e, CONNECT_INVALID,
                            "send multipart/form-data or application/octet-stream");
    return put_parts(a, u, e);
}

static void upload_done(struct upload *u)
{
    form_done(&u->form);
    gunzip_close(u->gunzip);
    str_done(&u->piece);
    str_done(&u->attributes);
    json_decref(u->list);
}

void files_upload(struct ask *a)
{
    __attribute__((cleanup(upload_done))) struct upload u = { .ask = a,
                                                              .list = json_array() };
    struct connect_error e = { 0 };

    if (!files_check_user(a) || !unpack(a, &u))
        return;
    if (metadata_read(a, &u.attributes, &e) == 0 && take_body(a, &u, &e) == 0)
        ask_json(a, 200, json_incref(u.list));
    else if (u.broken)
        ask_refuse(a, u.no.status ? u.no.status : 400, "%s",
                   u.no.status ? u.no.why : "the body is cut short");
    else if (e.code == CONNECT_EXHAUSTED)
        ask_refuse(a, 507, "%s", e.message);
    else
        files_refuse(a, &e);
}
