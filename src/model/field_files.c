/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that go in. JSON brings their content; only the text form names a host
 * path, because JSON may come from a client that must not read the host's files.
 */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/text.h"
#include "model/field_type.h"
#include "model/value.h"

#define MODE_DEFAULT 0644u

static void file_done(struct file_in *file)
{
    free(file->path);
    free(file->source);
    blob_done(&file->content);
    *file = (struct file_in){ 0 };
}

/* Takes FILE's members whether or not it succeeds. */
static int take_in(const struct field *f, struct file_list *list, struct file_in *file,
                   struct vial_error *err)
{
    struct file_in *grown = NULL;

    if (field_check_count(f, list->count + 1, err) < 0) {
        file_done(file);
        return -1;
    }
    if ((list->count & (list->count - 1)) == 0) /* full at each power of two */
        grown = reallocarray(list->items, list->count ? list->count * 2 : 1,
                             sizeof(*grown));
    else
        grown = list->items;
    if (!grown) {
        file_done(file);
        return fail_memory(err);
    }
    list->items = grown;
    list->items[list->count++] = *file;
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* "FILE[:PATH]"; without PATH the file keeps its name. */
static int files_parse(const struct field *f, void *member, const char *text,
                       size_t len, struct vial_error *err)
{
    struct file_in file = { .mode = 0 };
    const char *colon = strrchr(text, ':');
    size_t source_len = colon ? (size_t)(colon - text) : len;
    const char *path = colon ? colon + 1 : base_name(text);

    if (strlen(text) != len || source_len == 0 || *path == '\0')
        return value_refuse(f, text, len, "FILE or FILE:PATH", err);
    file.source = strndup(text, source_len);
    file.path = strdup(path);
    if (!file.source || !file.path) {
        file_done(&file);
        return fail_memory(err);
    }
    return take_in(f, member, &file, err);
}

static int decode_mode(json_t *json, unsigned *out, struct vial_error *err)
{
    const char *text = value_string(json);
    struct shown shown;
    char *end = NULL;
    unsigned long mode;

    if (!json) {
        *out = MODE_DEFAULT;
        return 0;
    }
    mode =
        text && strspn(text, "01234567") == strlen(text) ? strtoul(text, &end, 8) : 0;
    if (end && end != text && mode <= 0777) {
        *out = (unsigned)mode;
        return 0;
    }
    shown = value_show_json(json);
    return fail(err, VIAL_E_VALUE, "file mode '%s' is not octal text such as \"0644\"",
                shown.text);
}

static int decode_content(json_t *json, struct blob *out, struct vial_error *err)
{
    const json_t *plain = json_object_get(json, "content");
    const json_t *coded = json_object_get(json, "content_base64");

    if (!json_is_string(plain) == !json_is_string(coded) || (plain && coded))
        return fail(err, VIAL_E_VALUE,
                    "a file needs either the text 'content' or 'content_base64'");
    if (plain)
        return blob_set(out, json_string_value(plain), json_string_length(plain)) < 0
                   ? fail_memory(err)
                   : 0;
    if (text_unbase64(json_string_value(coded), json_string_length(coded), out) < 0)
        return fail(err, VIAL_E_VALUE, "file content_base64 is not base64");
    return 0;
}

static int check_keys(json_t *json, struct vial_error *err)
{
    static const char *const keys[] = { "path", "content", "content_base64", "mode",
                                        NULL };
    for (void *at = json_object_iter(json); at; at = json_object_iter_next(json, at)) {
        const char *key = json_object_iter_key(at);
        size_t i = 0;

        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (keys[i])
            continue;
        return value_unknown(err, "field", key, keys, " in files");
    }
    return 0;
}

static int decode_one(const struct field *f, struct file_list *list, json_t *json,
                      struct vial_error *err)
{
    struct file_in file = { 0 };
    const char *path = value_string(json_object_get(json, "path"));

    if (!json_is_object(json))
        return value_refuse_json(f, json, "an object with path and content", err);
    if (check_keys(json, err) < 0)
        return -1;
    if (!path)
        return fail(err, VIAL_E_VALUE,
                    "a file needs 'path', a string without NUL bytes");
    if (decode_content(json, &file.content, err) < 0 ||
        decode_mode(json_object_get(json, "mode"), &file.mode, err) < 0) {
        file_done(&file);
        return fail_in(err, "files");
    }
    file.path = strdup(path);
    if (!file.path) {
        file_done(&file);
        return fail_memory(err);
    }
    return take_in(f, list, &file, err);
}

static int files_decode(const struct field *f, void *member, json_t *json,
                        struct vial_error *err)
{
    if (!json_is_array(json))
        return value_refuse_json(f, json, "a list of objects with path and content",
                                 err);
    for (size_t i = 0; i < json_array_size(json); i++)
        if (decode_one(f, member, json_array_get(json, i), err) < 0)
            return -1;
    return 0;
}

static int copy_one(struct file_in *to, const struct file_in *from)
{
    to->mode = from->mode;
    to->path = strdup(from->path);
    to->source = from->source ? strdup(from->source) : NULL;
    if (!to->path || (from->source && !to->source))
        return -1;
    if (from->source)
        return 0;
    return blob_set(&to->content, from->content.data ? from->content.data : "",
                    from->content.len);
}

static int files_copy(void *member, const void *from)
{
    struct file_list *to = member;
    const struct file_list *list = from;
    size_t room = 1;

    while (room < list->count) /* a power of two, as take_in wants it */
        room *= 2;
    to->items = calloc(room, sizeof(*to->items));
    if (!to->items)
        return -1;
    for (; to->count < list->count; to->count++)
        if (copy_one(&to->items[to->count], &list->items[to->count]) < 0) {
            file_done(&to->items[to->count]);
            return -1;
        }
    return 0;
}

/* Names and sizes only: this is for people. */
static json_t *files_json(const struct field *f, const void *member)
{
    const struct file_list *list = member;
    json_t *array = json_array();

    (void)f;
    for (size_t i = 0; i < list->count; i++) {
        json_t *file = json_object();

        (void)json_object_set_new(
            file, "path",
            value_text_json(list->items[i].path, strlen(list->items[i].path)));
        (void)json_object_set_new(file, "bytes",
                                  json_integer((json_int_t)list->items[i].content.len));
        (void)json_array_append_new(array, file);
    }
    return array;
}

static void files_done(void *member)
{
    struct file_list *list = member;

    for (size_t i = 0; i < list->count; i++)
        file_done(&list->items[i]);
    free(list->items);
    *list = (struct file_list){ 0 };
}

const struct field_ops field_files_ops = { files_decode, files_parse, files_copy,
                                           files_json, files_done };
