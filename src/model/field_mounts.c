/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts as asked for. Whether a source or target may be used is judged when the
 * plan is built, not here. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/str.h"
#include "model/field_type.h"
#include "model/value.h"

#define FORM "SOURCE:TARGET, SOURCE:TARGET:ro or SOURCE:TARGET:rw"

static void mount_done(struct mount_in *mount)
{
    free(mount->source);
    free(mount->target);
    *mount = (struct mount_in){ 0 };
}

static int add(const struct field *f, struct mount_list *list, struct mount_in *mount,
               struct vial_error *err)
{
    struct mount_in *grown;

    if (!mount->source || !mount->target) {
        mount_done(mount);
        return fail_memory(err);
    }
    if (field_check_count(f, list->count + 1, err) < 0) {
        mount_done(mount);
        return -1;
    }
    grown = reallocarray(list->items, list->count + 1, sizeof(*grown));
    if (!grown) {
        mount_done(mount);
        return fail_memory(err);
    }
    list->items = grown;
    list->items[list->count++] = *mount;
    return 0;
}

/* Cuts ":ro" or ":rw" off the end of LEN bytes at TEXT. */
static bool cut_mode(const char *text, size_t *len)
{
    bool mode = *len > 3 && text[*len - 3] == ':' && text[*len - 2] == 'r';
    bool writable = mode && text[*len - 1] == 'w';

    if (writable || (mode && text[*len - 1] == 'o'))
        *len -= 3;
    return writable;
}

static int mounts_parse(const struct field *f, void *member, const char *text,
                        size_t len, struct vial_error *err)
{
    struct mount_in mount = { 0 };
    size_t end = len;
    const char *colon;

    mount.writable = cut_mode(text, &end);
    colon = memrchr(text, ':', end);
    if (!value_is_plain(text, len) || !colon || colon == text ||
        colon + 1 == text + end) {
        (void)value_refuse(f, text, len, FORM, err);
        return fail_remedy(err, "write for example '/srv/data:/data:ro'");
    }
    mount.source = strndup(text, (size_t)(colon - text));
    mount.target = strndup(colon + 1, end - (size_t)(colon + 1 - text));
    return add(f, member, &mount, err);
}

static const char *plain_string(const json_t *json)
{
    const char *text = value_string(json);

    return text && *text && value_is_plain(text, strlen(text)) ? text : NULL;
}

static int decode_object(const struct field *f, struct mount_list *list, json_t *json,
                         struct vial_error *err)
{
    const char *source = plain_string(json_object_get(json, "source"));
    const char *target = plain_string(json_object_get(json, "target"));
    const json_t *mode_json = json_object_get(json, "mode");
    const char *mode = mode_json ? plain_string(mode_json) : "ro";
    struct mount_in mount = { 0 };

    if (!source || !target || !mode || (!str_eq(mode, "ro") && !str_eq(mode, "rw")) ||
        json_object_size(json) != (mode_json ? 3u : 2u))
        return fail(
            err, VIAL_E_VALUE,
            "a mount needs 'source' and 'target', and may have 'mode', ro or rw");
    mount.source = strdup(source);
    mount.target = strdup(target);
    mount.writable = str_eq(mode, "rw");
    return add(f, list, &mount, err);
}

static int decode_one(const struct field *f, struct mount_list *list, json_t *json,
                      struct vial_error *err)
{
    if (json_is_string(json)) {
        if (mounts_parse(f, list, json_string_value(json), json_string_length(json),
                         err) < 0)
            return -1;
    } else if (!json_is_object(json)) {
        return value_refuse_json(f, json, FORM, err);
    } else if (decode_object(f, list, json, err) < 0) {
        return -1;
    }
    /* Relative to what? JSON has no current directory. */
    if (list->items[list->count - 1].source[0] != '/')
        return fail(err, VIAL_E_VALUE, "mount source '%s' is not an absolute path",
                    list->items[list->count - 1].source);
    return 0;
}

static int mounts_decode(const struct field *f, void *member, json_t *json,
                         struct vial_error *err)
{
    if (!json_is_array(json))
        return value_refuse_json(f, json, "a list of mounts", err);
    for (size_t i = 0; i < json_array_size(json); i++)
        if (decode_one(f, member, json_array_get(json, i), err) < 0)
            return -1;
    return 0;
}

static int mounts_copy(void *member, const void *from)
{
    struct mount_list *to = member;
    const struct mount_list *list = from;

    to->items = calloc(list->count ? list->count : 1, sizeof(*to->items));
    if (!to->items)
        return -1;
    for (; to->count < list->count; to->count++) {
        struct mount_in *mount = &to->items[to->count];

        mount->source = strdup(list->items[to->count].source);
        mount->target = strdup(list->items[to->count].target);
        mount->writable = list->items[to->count].writable;
        if (!mount->source || !mount->target) {
            mount_done(mount);
            return -1;
        }
    }
    return 0;
}

static json_t *mounts_json(const struct field *f, const void *member)
{
    const struct mount_list *list = member;
    json_t *array = json_array();

    (void)f;
    for (size_t i = 0; i < list->count; i++)
        (void)json_array_append_new(
            array,
            json_sprintf("%s:%s:%s", list->items[i].source, list->items[i].target,
                         list->items[i].writable ? "rw" : "ro"));
    return array;
}

static void mounts_done(void *member)
{
    struct mount_list *list = member;

    for (size_t i = 0; i < list->count; i++)
        mount_done(&list->items[i]);
    free(list->items);
    *list = (struct mount_list){ 0 };
}

const struct field_ops field_mounts_ops = { mounts_decode, mounts_parse, mounts_copy,
                                            mounts_json, mounts_done };
