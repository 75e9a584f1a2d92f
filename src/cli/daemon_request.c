/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/text.h"
#include "cli/daemon.h"
#include "model/request.h"

#define FILE_MAX  ((size_t)256 << 20)
#define STDIN_MAX ((size_t)16 << 20)

static int add_file(json_t *list, const struct file_in *file, struct vial_error *err)
{
    struct blob read = { 0 };
    const struct blob *content = &file->content;
    auto_str struct str coded = { 0 };
    json_t *entry;

    if (file->source) {
        if (io_read_file(file->source, FILE_MAX, &read, err) < 0)
            return -1;
        content = &read;
    }
    text_base64(&coded, content->data ? content->data : "", content->len);
    blob_done(&read);
    if (!str_ok(&coded))
        return fail_memory(err);
    entry = json_pack("{s:s, s:s}", "path", file->path, "content_base64",
                      coded.data ? coded.data : "");
    if (entry && file->mode) {
        char mode[8];

        (void)snprintf(mode, sizeof(mode), "%04o", file->mode & 07777u);
        (void)json_object_set_new(entry, "mode", json_string(mode));
    }
    return json_array_append_new(list, entry) == 0 ? 0 : fail_memory(err);
}

static int add_files(json_t *out, const struct file_list *files, struct vial_error *err)
{
    json_t *list = json_array();

    (void)json_object_set_new(out, "files", list);
    for (size_t i = 0; i < files->count; i++)
        if (add_file(list, &files->items[i], err) < 0)
            return -1;
    return 0;
}

static int set_text(json_t *out, const char *name, const struct blob *text,
                    struct vial_error *err)
{
    if (json_object_set_new(out, name,
                            json_stringn(text->data ? text->data : "", text->len)) == 0)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "'%s' is not UTF-8 text", name);
    return fail_remedy(err, "send it as a file, or run without --daemon");
}

static int add_field(json_t *out, const struct vial_request *req, enum field_id id,
                     struct vial_error *err)
{
    json_t *value;

    if (id == FIELD_ID_files)
        return add_files(out, &req->files, err);
    if (fields[id].type == FIELD_TEXT)
        return set_text(out, fields[id].name, request_peek(req, id), err);
    value = request_field_json(req, id);
    return json_object_set_new(out, fields[id].name, value) == 0 ? 0 : fail_memory(err);
}

/* The daemon is elsewhere: a path means what it means here. NULL: no memory. */
static json_t *absolute(const char *path)
{
    auto_free char *here = getcwd(NULL, 0);
    auto_free char *whole = here ? path_join(here, path) : NULL;

    return whole ? json_string(whole) : NULL;
}

static bool is_relative(json_t *path)
{
    return json_is_string(path) && json_string_value(path)[0] != '/';
}

static int make_absolute(json_t *request, const char *key, struct vial_error *err)
{
    json_t *path = json_object_get(request, key);

    if (!is_relative(path))
        return 0;
    return json_object_set_new(request, key, absolute(json_string_value(path))) == 0
               ? 0
               : fail_memory(err);
}

/* A mount is a text that begins with its source. */
static int make_mounts_absolute(json_t *mounts, struct vial_error *err)
{
    for (size_t i = 0; i < json_array_size(mounts); i++) {
        json_t *mount = json_array_get(mounts, i);

        if (is_relative(mount) &&
            json_array_set_new(mounts, i, absolute(json_string_value(mount))) < 0)
            return fail_memory(err);
    }
    return 0;
}

static int make_paths_absolute(json_t *request, struct vial_error *err)
{
    if (make_mounts_absolute(json_object_get(request, "mounts"), err) < 0 ||
        make_absolute(request, "workspace", err) < 0)
        return -1;
    return make_absolute(request, "rootfs", err);
}

int daemon_request(const struct vial_request *req, int stdin_fd, json_t **out,
                   struct vial_error *err)
{
    auto_json json_t *json = json_object();
    struct blob input = { 0 };
    int rc = 0;

    for (size_t i = 0; i < FIELD_ID__COUNT; i++)
        if (((req->set >> i) & 1u) && add_field(json, req, (enum field_id)i, err) < 0)
            return -1;
    if (make_paths_absolute(json, err) < 0)
        return -1;
    if (stdin_fd >= 0) {
        rc = io_read_fd(stdin_fd, "standard input", STDIN_MAX, &input, err);
        if (rc == 0)
            rc = set_text(json, "stdin", &input, err);
        blob_done(&input);
    }
    if (rc == 0)
        *out = ptr_take(&json);
    return rc;
}
