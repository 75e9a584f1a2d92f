/* SPDX-License-Identifier: Apache-2.0 */

/* Whole files, up. A body comes as the web room has it: in memory while it is small,
 * else in a file without a name; at most as large as the setting `body`, packed or
 * not. */

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "e2b/filesystem.h"
#include "model/value.h"
#include "web/gzip.h"
#include "web/multipart.h"

#define PARTS 1000u

static json_t *written(const char *path, const char *attributes)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    return json_pack("{s:o, s:o, s:s, s:o*}", "path",
                     value_text_json(path, strlen(path)), "name",
                     value_text_json(name, strlen(name)), "type", "file", "metadata",
                     metadata_json(attributes));
}

/* False: it was refused. */
static bool unpack(struct ask *a)
{
    const char *coding = web_header(a->web, "Content-Encoding");
    const char *why = NULL;
    unsigned status = 0;

    if (!coding || !*coding || strcasecmp(coding, "identity") == 0)
        return true;
    if (strcasecmp(coding, "gzip") == 0)
        status = gzip_unpack_body(a->web, &why);
    else
        ask_refuse(a, 400, "Content-Encoding '%.32s' is not known; send gzip", coding);
    if (status)
        ask_refuse(a, status, "%s", why);
    return status == 0 && strcasecmp(coding, "gzip") == 0;
}

/* What is brought, and what all of it gets. */
struct upload {
    struct str attributes;
    json_t *list; /* of what was written */
};

static int put(struct ask *a, struct upload *u, const char *to, const struct part *part,
               struct connect_error *e)
{
    const struct vial_put_options how = { .attributes = u->attributes.data };
    auto_str struct str path = { 0 };
    struct connect_error missing;
    struct vial_error err = { 0 };
    json_t *entry;
    size_t i;

    if (box_path(BOX_HOME, to, &path, e) < 0)
        return -1;
    json_array_foreach(
        u->list, i,
        entry) if (str_eq(json_string_value(json_object_get(entry, "path")),
                          path.data)) return connect_fail(e, CONNECT_INVALID,
                                                          "path '%.256s' comes twice",
                                                          path.data);
    if (entry_is_dir(a->box, path.data, &missing) > 0)
        return connect_fail(e, CONNECT_INVALID, "path '%.256s' is a directory",
                            path.data);
    if (vial_session_put_with(box_session(a->box), path.data, part->data, part->len,
                              &how, &err) < 0)
        return connect_from(e, &err);
    return json_array_append_new(u->list, written(path.data, how.attributes)) < 0
               ? connect_fail(e, CONNECT_INTERNAL, "out of memory")
               : 0;
}

static int put_parts(struct ask *a, struct upload *u, struct multipart *m,
                     struct connect_error *e)
{
    const char *path = web_query(a->web, "path");
    struct part part;
    unsigned count = 0;
    int rc;

    while ((rc = multipart_next(m, &part)) > 0) {
        const char *to = path && *path ? path : part.filename;

        if (strcmp(part.name, "file") != 0)
            continue;
        if (!*to)
            return connect_fail(e, CONNECT_INVALID, "a part has no file name");
        if (++count > PARTS)
            return connect_fail(e, CONNECT_INVALID, "there are more than %u files",
                                PARTS);
        if (put(a, u, to, &part, e) < 0)
            return -1;
    }
    return rc < 0 ? connect_fail(e, CONNECT_INVALID, "the form is cut short") : 0;
}

static int take_body(struct ask *a, struct upload *u, struct connect_error *e)
{
    const char *type = web_header(a->web, "Content-Type");
    const char *path = web_query(a->web, "path");
    struct multipart m;
    struct part whole = { 0 };

    whole.data = web_body(a->web, &whole.len);
    if (type && strncasecmp(type, "application/octet-stream", 24) == 0)
        return path && *path ? put(a, u, path, &whole, e)
                             : connect_fail(e, CONNECT_INVALID, "'path' is missing");
    if (!type || !multipart_begin(&m, type, whole.data, whole.len))
        return connect_fail(e, CONNECT_INVALID,
                            "send multipart/form-data or application/octet-stream");
    return put_parts(a, u, &m, e);
}

static void upload_done(struct upload *u)
{
    str_done(&u->attributes);
    json_decref(u->list);
}

void files_upload(struct ask *a)
{
    __attribute__((cleanup(upload_done))) struct upload u = { .list = json_array() };
    struct connect_error e = { 0 };

    if (!files_check_user(a) || !unpack(a))
        return;
    if (metadata_read(a, &u.attributes, &e) == 0 && take_body(a, &u, &e) == 0)
        ask_json(a, 200, json_incref(u.list));
    else if (e.code == CONNECT_EXHAUSTED)
        ask_refuse(a, 507, "%s", e.message);
    else
        files_refuse(a, &e);
}
