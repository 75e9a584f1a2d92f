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

static json_t *written(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    return json_pack("{s:o, s:o, s:s}", "path", value_text_json(path, strlen(path)),
                     "name", value_text_json(name, strlen(name)), "type", "file");
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

/* What a header asks for that is not done here. False: it was refused. */
static bool check_metadata(struct ask *a)
{
    if (web_has_header(a->web, "X-Metadata-")) {
        ask_refuse(a, 400, "X-Metadata headers are not supported by this server");
        return false;
    }
    return true;
}

static int put(struct ask *a, const char *to, const struct part *part, json_t *list,
               struct connect_error *e)
{
    auto_str struct str path = { 0 };
    struct connect_error missing;
    struct vial_error err = { 0 };
    json_t *entry;
    size_t i;

    if (box_path(BOX_HOME, to, &path, e) < 0)
        return -1;
    json_array_foreach(
        list, i,
        entry) if (str_eq(json_string_value(json_object_get(entry, "path")),
                          path.data)) return connect_fail(e, CONNECT_INVALID,
                                                          "path '%.256s' comes twice",
                                                          path.data);
    if (entry_is_dir(a->box, path.data, &missing) > 0)
        return connect_fail(e, CONNECT_INVALID, "path '%.256s' is a directory",
                            path.data);
    if (vial_session_put(box_session(a->box), path.data, part->data, part->len, 0,
                         &err) < 0)
        return connect_from(e, &err);
    return json_array_append_new(list, written(path.data)) < 0
               ? connect_fail(e, CONNECT_INTERNAL, "out of memory")
               : 0;
}

static int put_parts(struct ask *a, struct multipart *m, json_t *list,
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
        if (put(a, to, &part, list, e) < 0)
            return -1;
    }
    return rc < 0 ? connect_fail(e, CONNECT_INVALID, "the form is cut short") : 0;
}

static int take_body(struct ask *a, json_t *list, struct connect_error *e)
{
    const char *type = web_header(a->web, "Content-Type");
    const char *path = web_query(a->web, "path");
    struct multipart m;
    struct part whole = { 0 };

    whole.data = web_body(a->web, &whole.len);
    if (type && strncasecmp(type, "application/octet-stream", 24) == 0)
        return path && *path ? put(a, path, &whole, list, e)
                             : connect_fail(e, CONNECT_INVALID, "'path' is missing");
    if (!type || !multipart_begin(&m, type, whole.data, whole.len))
        return connect_fail(e, CONNECT_INVALID,
                            "send multipart/form-data or application/octet-stream");
    return put_parts(a, &m, list, e);
}

void files_upload(struct ask *a)
{
    auto_json json_t *list = json_array();
    struct connect_error e = { 0 };

    if (!files_check_user(a) || !check_metadata(a) || !unpack(a))
        return;
    if (take_body(a, list, &e) == 0)
        ask_json(a, 200, json_incref(list));
    else if (e.code == CONNECT_EXHAUSTED)
        ask_refuse(a, 507, "%s", e.message);
    else
        files_refuse(a, &e);
}
