/* SPDX-License-Identifier: Apache-2.0 */

/* Whole files, up and down. A body comes as the web room has it: in memory while it is
 * small, else in a file without a name, at most as large as the setting `body`. A
 * download is passed on piece by piece. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "base/unit.h"
#include "e2b/filesystem.h"
#include "model/value.h"
#include "web/multipart.h"

#define PIECE     (UINT64_C(1) << 20)
#define PARTS     1000u
#define UNSIZED   (UINT64_C(8) << 20)
#define HOLES_MAX (UINT64_C(1) << 30) /* that are sent as zeros */

static bool check_user(struct ask *a)
{
    const char *name = web_query(a->web, "username");

    if (!name || !*name || strcmp(name, BOX_USER) == 0)
        return true;
    ask_refuse(a, 401, "invalid username: '%.64s'", name);
    return false;
}

static void refuse(struct ask *a, const struct connect_error *e)
{
    ask_refuse(a,
               e->code == CONNECT_NOT_FOUND ? 404
               : e->code == CONNECT_INVALID ? 400
               : e->code == CONNECT_DENIED  ? 403
                                            : 500,
               "%s", e->message);
}

/* "bytes=A-B", "bytes=A-", "bytes=-N": *FROM and *END of SIZE. 1; 0: there is none that
 * counts; -1: it lies outside. */
static int read_range(const char *text, uint64_t size, uint64_t *from, uint64_t *end)
{
    char copy[64];
    char *dash;
    int64_t a = -1;
    int64_t b = -1;

    if (!text || strncmp(text, "bytes=", 6) != 0 || strlen(text) >= sizeof(copy) ||
        strchr(text, ','))
        return 0;
    (void)snprintf(copy, sizeof(copy), "%s", text + 6);
    dash = strchr(copy, '-');
    if (!dash)
        return 0;
    *dash++ = '\0';
    if ((*copy && unit_parse_count(copy, &a) < 0) ||
        (*dash && unit_parse_count(dash, &b) < 0) || (a < 0 && b < 0) ||
        (a >= 0 && b >= 0 && b < a))
        return 0;
    *from = a >= 0 ? (uint64_t)a : (uint64_t)b < size ? size - (uint64_t)b : 0;
    *end = a >= 0 && b >= 0 && (uint64_t)b < size ? (uint64_t)b + 1 : size;
    return *from < size || (a < 0 && b > 0) ? 1 : -1;
}

/* Of SIZE bytes those from FROM on, before END; none of them: the file is shorter. */
static void set_range(struct ask *a, uint64_t from, uint64_t end, uint64_t size)
{
    char text[96];

    if (from < end)
        (void)snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
                       from, end - 1, size);
    else
        (void)snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
    (void)web_set_header(a->web, "Content-Range", text);
}

/* The guest chose name and content; a browser must not take it for a page of ours. */
static void set_heads(struct ask *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    auto_str struct str text = { 0 };

    str_puts(&text, "inline; filename*=UTF-8''");
    for (const char *at = slash ? slash + 1 : path; *at; at++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.",
                   *at))
            str_putc(&text, *at);
        else
            str_printf(&text, "%%%02X", (unsigned char)*at);
    if (str_ok(&text))
        (void)web_set_header(a->web, "Content-Disposition", text.data);
    (void)web_set_header(a->web, "X-Content-Type-Options", "nosniff");
    (void)web_set_header(a->web, "Content-Security-Policy", "sandbox");
    (void)web_set_header(a->web, "Accept-Ranges", "bytes");
    (void)web_set_header(a->web, "Vary", "Accept-Encoding");
}

struct download {
    const char *path, *media;
    const char *name; /* it is read by that one */
    uint64_t at, end;
    unsigned status;
};

/* At most LEN bytes from where D is. Below the home without a process inside, unless a
 * link is on the way. */
static int get(struct box *box, struct download *d, uint64_t len, char **data,
               size_t *got, struct vial_error *err)
{
    struct vial_session *s = box_session(box);

    if (vial_session_get(s, d->name, d->at, len, data, got, err) == 0)
        return 0;
    if (d->name == d->path || strcmp(err->code, fail_code_text(VIAL_E_PATH)) != 0)
        return -1;
    fail_clear(err);
    d->name = d->path;
    return vial_session_get(s, d->name, d->at, len, data, got, err);
}

static void refuse_error(struct ask *a, const struct vial_error *err)
{
    struct connect_error e;

    (void)connect_from(&e, err);
    refuse(a, &e);
}

static void send_rest(struct ask *a, struct download *d, char *data, size_t got)
{
    struct vial_error err;

    for (;;) {
        int rc = web_write(a->web, data, got);

        free(data);
        data = NULL;
        d->at += got;
        if (rc < 0 || d->at >= d->end)
            break;
        got = 0;
        if (get(a->box, d, d->end - d->at < PIECE ? d->end - d->at : PIECE, &data, &got,
                &err) < 0 ||
            got == 0) {
            free(data);
            web_abort(a->web);
            return;
        }
    }
    web_end(a->web);
}

/* The first piece says whether it can be read at all. */
static void send_file(struct ask *a, struct download *d)
{
    uint64_t want = d->end - d->at < PIECE ? d->end - d->at : PIECE;
    struct vial_error err = { 0 };
    char *data = NULL;
    size_t got = 0;

    if (want && get(a->box, d, want, &data, &got, &err) < 0) {
        refuse_error(a, &err);
        return;
    }
    set_heads(a, d->path);
    a->turn->status = d->status;
    if (got == d->end - d->at) {
        (void)web_give(a->web, d->status, d->media, data ? data : strdup(""), got);
        return;
    }
    if (got == 0 || web_start_sized(a->web, d->status, d->media, d->end - d->at) < 0)
        free(data);
    else
        send_rest(a, d, data, got);
}

/* A file that was said to be empty may have grown; a guest that sends more is not
 * believed. */
static void send_unsized(struct ask *a, struct download *d)
{
    struct vial_error err = { 0 };
    char *data = NULL;
    size_t got = 0;

    if (get(a->box, d, UNSIZED + 1, &data, &got, &err) < 0) {
        refuse_error(a, &err);
        return;
    }
    if (got > UNSIZED) {
        free(data);
        ask_refuse(a, 400, "path '%.256s' does not say its size", d->path);
        return;
    }
    set_heads(a, d->path);
    a->turn->status = 200;
    (void)web_give(a->web, 200, d->media, data, got);
}

/* Of a link, what it leads to. */
static int look(struct ask *a, const char *path, struct vial_entry *out,
                struct download *d, struct vial_error *err)
{
    struct vial_session *s = box_session(a->box);

    d->path = path;
    d->name = box_name(path);
    if (vial_session_stat(s, path, out, err) < 0)
        return -1;
    if (out->type != 'l')
        return 0;
    d->name = path;
    vial_entry_done(out);
    return vial_session_stat_followed(s, path, out, err);
}

static int check(struct ask *a, const char *path, struct download *d,
                 struct connect_error *e)
{
    struct vial_entry entry = { 0 };
    struct vial_error err = { 0 };
    int dir = entry_is_dir(a->box, path, e);

    if (dir < 0)
        return -1;
    if (dir)
        return connect_fail(e, CONNECT_INVALID, "path '%.256s' is a directory", path);
    if (look(a, path, &entry, d, &err) < 0)
        return connect_from(e, &err);
    d->end = entry.size;
    d->media = entry.media ? entry.media : "application/octet-stream";
    vial_entry_done(&entry);
    if (entry.holes > HOLES_MAX)
        return connect_fail(e, CONNECT_INVALID, "path '%.256s' is mostly holes", path);
    return 0;
}

void files_download(struct ask *a)
{
    const char *given = web_query(a->web, "path");
    auto_str struct str path = { 0 };
    struct connect_error e = { 0 };
    struct download d = { .status = 200 };
    uint64_t size;
    int range;

    if (!check_user(a))
        return;
    if (box_path(given ? given : "", &path, &e) < 0 ||
        check(a, path.data, &d, &e) < 0) {
        refuse(a, &e);
        return;
    }
    size = d.end;
    range = size ? read_range(web_header(a->web, "Range"), size, &d.at, &d.end) : 0;
    if (range != 0)
        set_range(a, d.at, range > 0 ? d.end : 0, size);
    if (range > 0)
        d.status = 206;
    if (range < 0)
        ask_refuse(a, 416, "the file has %" PRIu64 " bytes", size);
    else if (size == 0)
        send_unsized(a, &d);
    else
        send_file(a, &d);
}

static json_t *written(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    return json_pack("{s:o, s:o, s:s}", "path", value_text_json(path, strlen(path)),
                     "name", value_text_json(name, strlen(name)), "type", "file");
}

/* What a header or coding asks for that is not done here. False: it was refused. */
static bool check_coding(struct ask *a)
{
    const char *coding = web_header(a->web, "Content-Encoding");

    if (coding && *coding && strcasecmp(coding, "identity") != 0) {
        ask_refuse(a, 400, "Content-Encoding '%.32s' is not supported by this server",
                   coding);
        return false;
    }
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

    if (box_path(to, &path, e) < 0)
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

    if (!check_user(a) || !check_coding(a))
        return;
    if (take_body(a, list, &e) == 0)
        ask_json(a, 200, json_incref(list));
    else if (e.code == CONNECT_EXHAUSTED)
        ask_refuse(a, 507, "%s", e.message);
    else
        refuse(a, &e);
}
