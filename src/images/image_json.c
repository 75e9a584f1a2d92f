/* SPDX-License-Identifier: Apache-2.0 */
#include "images/image_json.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"

static json_t *list_of(const struct strv *v)
{
    json_t *list = json_array();

    for (size_t i = 0; i < v->count; i++)
        (void)json_array_append_new(list, json_string(v->items[i]));
    return list;
}

/* The names of the image DIGEST; PINNED: those with a digest, or the others. */
static json_t *names_of(const struct store_names *names, const char *digest,
                        bool pinned)
{
    json_t *list = json_array();

    for (size_t i = 0; i < names->names.count; i++)
        if (str_eq(names->digests.items[i], digest) &&
            (strchr(names->names.items[i], '@') != NULL) == pinned)
            (void)json_array_append_new(list, json_string(names->names.items[i]));
    return list;
}

/* What the template said that made it; NULL: none did. */
static json_t *template_of(const struct stored_image *image)
{
    if (!image->template_pool)
        return NULL;
    return json_pack("{s:I, s:o}", "pool",
                     (json_int_t)strtoll(image->template_pool, NULL, 10), "imports",
                     list_of(&image->imports));
}

static json_t *describe(const struct stored_image *image,
                        const struct store_names *names)
{
    json_t *made = template_of(image);
    json_t *object =
        json_pack("{s:s, s:s, s:o, s:o, s:I, s:s, s:I, s:I}", "id", image->id, "digest",
                  image->digest, "tags", names_of(names, image->digest, false),
                  "digests", names_of(names, image->digest, true), "size",
                  (json_int_t)image->size, "platform", image->platform, "created",
                  (json_int_t)image->created, "used", (json_int_t)image->used);

    if (made)
        (void)json_object_set_new(object, "template", made);
    return object;
}

int store_list_json(const char *store_dir, json_t **out, struct vial_error *err)
{
    auto_json json_t *list = json_array();
    auto_strv struct strv digests = { 0 };
    struct store_names names = { 0 };
    int rc = store_digests(store_dir, &digests, err);

    rc = rc < 0 ? rc : store_names(store_dir, &names, err);
    for (size_t i = 0; rc == 0 && i < digests.count; i++) {
        auto_stored struct stored_image image = STORED_IMAGE_NONE;

        /* One that was removed meanwhile, or is not whole, is not an image. */
        if (store_look(store_dir, digests.items[i], &image, NULL) == 0)
            (void)json_array_append_new(list, describe(&image, &names));
    }
    store_names_done(&names);
    if (rc == 0)
        *out = ptr_take(&list);
    return rc;
}

int store_inspect_json(const char *store_dir, const char *reference, json_t **out,
                       struct vial_error *err)
{
    auto_stored struct stored_image image = STORED_IMAGE_NONE;
    struct store_names names = { 0 };
    json_t *object = NULL;

    if (store_find(store_dir, reference, &image, err) < 0 ||
        store_names(store_dir, &names, err) < 0)
        return -1;
    object = describe(&image, &names);
    store_names_done(&names);
    if (!object)
        return fail_memory(err);
    (void)json_object_update_new(
        object,
        json_pack("{s:o, s:o, s:o, s:s?, s:s?, s:o, s:o, s:b, s:b}", "env",
                  list_of(&image.env), "entrypoint", list_of(&image.entrypoint), "cmd",
                  list_of(&image.cmd), "cwd", image.cwd, "user", image.user, "layers",
                  list_of(&image.chains), "lowers", list_of(&image.lowers),
                  "owners_kept", image.owners_kept, "user_xattr", image.user_xattr));
    *out = object;
    return 0;
}
