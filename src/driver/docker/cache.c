/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/cache.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "driver/docker/containers.h"

#define MARK    "/.vial-cache" /* the guest makes it once the volume is open */
#define OPEN_MS 60000
#define ID_SIZE 80

/* True when the mark is there; a container need not run to be asked. */
static bool is_open(const struct api *api, const char *id, const char *target)
{
    auto_str struct str path = { 0 };
    auto_str struct str where = { 0 };
    struct api_call call = { .method = "HEAD", .about = "look at a cache" };

    str_printf(&path, "%s" MARK, target);
    if (!str_ok(&path))
        return false;
    str_printf(&where, "/containers/%s/archive?path=", id);
    http_escape(&where, path.data);
    if (!str_ok(&where))
        return false;
    call.target = where.data;
    return api_do(api, &call, NULL, NULL) == 0;
}

static int create(const struct api *api, const struct plan *plan, size_t i,
                  const struct container_options *o, char id[ID_SIZE],
                  struct vial_error *err)
{
    auto_json json_t *body = container_cache_json(plan, i, o);
    auto_json json_t *answer = NULL;
    struct api_call call = { .method = "POST",
                             .target = "/containers/create",
                             .body = body,
                             .about = "open a cache",
                             .object = plan->image };
    const char *made = NULL;

    if (!body)
        return fail_memory(err);
    if (api_do(api, &call, &answer, err) < 0)
        return -1;
    made = json_string_value(json_object_get(answer, "Id"));
    if (!made || strlen(made) >= ID_SIZE ||
        strspn(made, "0123456789abcdef") != strlen(made))
        return fail(err, VIAL_E_ENGINE_API, "open a cache: its container has no id");
    (void)snprintf(id, ID_SIZE, "%s", made);
    return 0;
}

static int run(const struct api *api, const char *id, struct vial_error *err)
{
    char target[160];
    auto_json json_t *answer = NULL;
    struct api_call start = { .method = "POST",
                              .target = target,
                              .about = "open a cache" };
    struct api_call wait = { .method = "POST",
                             .target = target,
                             .timeout_ms = OPEN_MS,
                             .about = "open a cache" };

    (void)snprintf(target, sizeof(target), "/containers/%s/start", id);
    if (api_do(api, &start, NULL, err) < 0)
        return -1;
    (void)snprintf(target, sizeof(target), "/containers/%s/wait", id);
    if (api_do(api, &wait, &answer, err) < 0)
        return -1;
    if (json_integer_value(json_object_get(answer, "StatusCode")) == 0)
        return 0;
    return fail(err, VIAL_E_MOUNT, "open a cache: the volume cannot be written to");
}

static int open_one(const struct api *api, const struct plan *plan, size_t i,
                    const struct container_options *o, struct vial_error *err)
{
    char id[ID_SIZE] = "";
    int rc = create(api, plan, i, o, id, err);

    if (rc == 0 && o->place == ENTRY_COPY)
        rc = guest_entry_copy(api, id, o->guest_fd, err);
    if (rc == 0)
        rc = run(api, id, err);
    if (id[0])
        (void)containers_remove(api, id, NULL);
    return rc;
}

int cache_open(const struct api *api, const char *id, const struct plan *plan,
               const struct container_options *o, struct vial_error *err)
{
    for (size_t i = 0; i < plan->container.cache_count; i++)
        if (!is_open(api, id, plan->container.caches[i].target) &&
            open_one(api, plan, i, o, err) < 0)
            return fail_in(err, "cache '%s'", plan->container.caches[i].volume);
    return 0;
}

static int ask(const struct api *api, json_t **out, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    struct api_call call = { .method = "GET", .about = "list the caches" };

    str_puts(&target, "/volumes?filters=");
    http_escape(&target, "{\"label\":[\"" LABEL_CACHE "=true\"]}");
    if (!str_ok(&target))
        return fail_memory(err);
    call.target = target.data;
    return api_do(api, &call, out, err);
}

int cache_list(const struct api *api, json_t **out, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    auto_json json_t *list = json_array();
    json_t *volume = NULL;
    size_t i = 0;

    if (ask(api, &answer, err) < 0)
        return -1;
    json_array_foreach(json_object_get(answer, "Volumes"), i, volume)
    {
        if (json_array_append_new(
                list, json_pack("{s:O?, s:O?}", "name", json_object_get(volume, "Name"),
                                "created", json_object_get(volume, "CreatedAt"))) < 0)
            return fail_memory(err);
    }
    *out = ptr_take(&list);
    return 0;
}

int cache_prune(const struct api *api, unsigned *removed, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    json_t *volume = NULL;
    size_t i = 0;

    *removed = 0;
    if (ask(api, &answer, err) < 0)
        return -1;
    json_array_foreach(json_object_get(answer, "Volumes"), i, volume)
    {
        auto_str struct str target = { 0 };
        struct api_call call = { .method = "DELETE", .about = "remove a cache" };
        const char *name = json_string_value(json_object_get(volume, "Name"));

        str_puts(&target, "/volumes/");
        http_escape(&target, name ? name : "");
        if (!str_ok(&target))
            return fail_memory(err);
        call.target = target.data;
        /* One that is in use stays. */
        if (name && api_do(api, &call, NULL, NULL) == 0)
            (*removed)++;
    }
    return 0;
}
