/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/image.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"

#define PRUNE_MS 120000

static json_t *describe(json_t *image)
{
    return json_pack("{s:O?, s:O?, s:O?, s:O?}", "id", json_object_get(image, "Id"),
                     "tags", json_object_get(image, "RepoTags"), "digests",
                     json_object_get(image, "RepoDigests"), "size",
                     json_object_get(image, "Size"));
}

static bool has_digest(json_t *image, const char *digest)
{
    json_t *list = json_object_get(image, "RepoDigests");
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(list, i, item)
    {
        const char *at =
            json_is_string(item) ? strchr(json_string_value(item), '@') : NULL;

        if (at && str_eq(at + 1, digest))
            return true;
    }
    return false;
}

/* Asks the engine about the image that the user calls TEXT. */
static int image_look(const struct api *api, const char *text, const char *about,
                      json_t **out, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    struct image_name name;
    struct api_call call = { .method = "GET", .about = about, .object = text };

    if (image_parse(text, &name, err) < 0)
        return -1;
    /* Slashes stay: the engine takes the rest of the path as the name. */
    str_printf(&target, "/images/%s/json", text);
    if (!str_ok(&target))
        return fail_memory(err);
    call.target = target.data;
    return api_do(api, &call, out, err);
}

int image_verify(const struct api *api, const char *text, const struct image_name *name,
                 json_t **out, struct vial_error *err)
{
    auto_json json_t *image = NULL;

    if (image_look(api, text, "look at the image", &image, err) < 0)
        return -1;
    if (name->pinned && !has_digest(image, name->tag))
        return fail(err, VIAL_E_PULL, "image '%s' came with another digest", text);
    *out = describe(image);
    return *out ? 0 : fail_memory(err);
}

int image_list(const struct api *api, json_t **out, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    auto_json json_t *list = json_array();
    struct api_call call = { .method = "GET",
                             .target = "/images/json",
                             .about = "list the images" };
    json_t *image = NULL;
    size_t i = 0;

    if (api_do(api, &call, &answer, err) < 0)
        return -1;
    json_array_foreach(answer, i, image)
    {
        if (json_array_append_new(list, describe(image)) < 0)
            return fail_memory(err);
    }
    *out = ptr_take(&list);
    return 0;
}

int image_prune(const struct api *api, bool all, json_t **out, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    auto_json json_t *answer = NULL;
    struct api_call call = { .method = "POST",
                             .timeout_ms = PRUNE_MS,
                             .about = "remove old images" };

    str_puts(&target, "/images/prune?filters=");
    http_escape(&target,
                all ? "{\"dangling\":[\"false\"]}" : "{\"dangling\":[\"true\"]}");
    if (!str_ok(&target))
        return fail_memory(err);
    call.target = target.data;
    if (api_do(api, &call, &answer, err) < 0)
        return -1;
    *out = json_pack("{s:i, s:O?}", "removed",
                     (int)json_array_size(json_object_get(answer, "ImagesDeleted")),
                     "freed_bytes", json_object_get(answer, "SpaceReclaimed"));
    return *out ? 0 : fail_memory(err);
}

int config_read(const struct api *api, const char *text, struct image_config *out,
                struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    const char *id;
    const char *arch;

    if (image_look(api, text, "create the container", &answer, err) < 0)
        return -1;
    id = json_string_value(json_object_get(answer, "Id"));
    if (!id || strlen(id) >= sizeof(out->id))
        return fail(err, VIAL_E_ENGINE_API, "look at image '%s': it has no id", text);
    if (config_parse(json_object_get(answer, "Config"), text, out, err) < 0)
        return -1;
    arch = json_string_value(json_object_get(answer, "Architecture"));
    (void)snprintf(out->id, sizeof(out->id), "%s", id);
    (void)snprintf(out->arch, sizeof(out->arch), "%s", arch ? arch : "");
    return 0;
}
