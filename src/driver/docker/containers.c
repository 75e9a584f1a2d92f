/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/containers.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/owner.h"
#include "driver/docker/container.h"

#define REACH_MS 5000

int containers_reach(struct api *api, struct vial_error *err)
{
    struct vial_error why = { 0 };
    auto_answer struct http_answer answer = { 0 };
    struct http_request request = { .method = "GET",
                                    .target = "/_ping",
                                    .timeout_ms = REACH_MS,
                                    .cancel_fd =
                                        api->cancel_fd ? *api->cancel_fd : -1 };

    if (http_call(&api->transport, &request, &answer, &why) == 0)
        return 1;
    if (fail_is(&why, VIAL_E_ENGINE_MISSING) || fail_is(&why, VIAL_E_ENGINE_DOWN))
        return 0;
    if (err)
        *err = why;
    (void)api_advise(api, err);
    return fail_in(err, "reach the engine");
}

static int ask_list(const struct api *api, json_t **out, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    struct api_call call = { .method = "GET", .about = "list the containers" };

    str_puts(&target, "/containers/json?all=true&filters=");
    http_escape(&target, "{\"label\":[\"" LABEL_MANAGED "=true\"]}");
    if (!str_ok(&target))
        return fail_memory(err);
    call.target = target.data;
    return api_do(api, &call, out, err);
}

void containers_host(char out[CONTAINERS_HOST])
{
    out[0] = '\0';
    if (io_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", out, CONTAINERS_HOST) <=
        0)
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

/* Of another host, or an earlier boot, or who knows: its owner's number says nothing
 * here. What has ended is of no use to anybody. */
static bool is_foreign(json_t *labels)
{
    const char *host = json_string_value(json_object_get(labels, LABEL_HOST));
    char own[CONTAINERS_HOST];

    containers_host(own);
    return host && !str_eq(host, own);
}

static bool has_ended(json_t *container)
{
    const char *state = json_string_value(json_object_get(container, "State"));

    return str_eq(state, "exited") || str_eq(state, "dead");
}

static bool is_orphan(json_t *container)
{
    json_t *labels = json_object_get(container, "Labels");
    const char *owner = json_string_value(json_object_get(labels, LABEL_OWNER));

    if (is_foreign(labels))
        return has_ended(container);
    return owner && owner_is_dead(owner);
}

/* Whether it takes one of the places that there are. One that was made and never
 * started, by somebody who has died, takes none. */
static bool is_open(json_t *container)
{
    const char *state = json_string_value(json_object_get(container, "State"));

    if (has_ended(container) || str_eq(state, "removing"))
        return false;
    return !str_eq(state, "created") || !is_orphan(container);
}

/* Not empty, as one is that an image brought (container.c). */
static const char *text_of(json_t *labels, const char *key)
{
    const char *text = json_string_value(json_object_get(labels, key));

    return text && *text ? text : NULL;
}

int containers_count(const struct api *api, const char *prefix, int64_t *mine,
                     int64_t *all, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    auto_str struct str label = { 0 };
    json_t *container = NULL;
    size_t i = 0;

    str_printf(&label, "%s.managed", prefix);
    if (!str_ok(&label))
        return fail_memory(err);
    if (ask_list(api, &answer, err) < 0)
        return -1;
    *mine = *all = 0;
    json_array_foreach(answer, i, container)
    {
        json_t *labels = json_object_get(container, "Labels");
        bool open = is_open(container);

        *all += open;
        *mine += open && text_of(labels, label.data);
    }
    return 0;
}

static const char *name_of(json_t *container)
{
    json_t *names = json_object_get(container, "Names");
    const char *name = json_string_value(json_array_get(names, 0));

    return name && name[0] == '/' ? name + 1 : name;
}

/* Published ones alone, as they are given: "127.0.0.1:8000:80/tcp". */
static void add_ports(json_t *container, struct strv *out)
{
    json_t *port = NULL;
    size_t i = 0;

    json_array_foreach(json_object_get(container, "Ports"), i, port)
    {
        const char *address = json_string_value(json_object_get(port, "IP"));
        const char *type = json_string_value(json_object_get(port, "Type"));
        json_int_t outside = json_integer_value(json_object_get(port, "PublicPort"));
        json_int_t inside = json_integer_value(json_object_get(port, "PrivatePort"));

        if (address && type && outside > 0)
            strv_printf(out, "%s:%lld:%lld/%s", address, (long long)outside,
                        (long long)inside, type);
    }
}

static int add_container(struct vial_vessels *list, json_t *container)
{
    json_t *labels = json_object_get(container, "Labels");
    auto_strv struct strv ports = { 0 };
    struct vial_vessel v = {
        .driver = "docker",
        .id = json_string_value(json_object_get(container, "Id")),
        .name = name_of(container),
        .vessel = json_string_value(json_object_get(labels, LABEL_VESSEL)),
        .session = text_of(labels, LABEL_SESSION),
        .task = text_of(labels, LABEL_TASK),
        .image = json_string_value(json_object_get(container, "Image")),
        .state = json_string_value(json_object_get(container, "State")),
        .created = json_integer_value(json_object_get(container, "Created")),
        .orphan = is_orphan(container),
    };

    add_ports(container, &ports);
    v.ports = (const char *const *)ports.items;
    return strv_ok(&ports) ? vessels_add(list, &v) : -1;
}

int containers_list(const struct api *api, struct vial_vessels *list,
                    struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    json_t *container = NULL;
    size_t i = 0;

    if (ask_list(api, &answer, err) < 0)
        return -1;
    json_array_foreach(answer, i, container)
    {
        if (add_container(list, container) < 0)
            return fail_memory(err);
    }
    return 0;
}

bool containers_is_gone(const struct vial_error *why)
{
    return fail_is(why, VIAL_E_ENGINE_API) &&
           (strstr(why->message, "status 404") || strstr(why->message, "status 409"));
}

/* 1: somebody else was faster. */
int containers_remove(const struct api *api, const char *id, struct vial_error *err)
{
    struct vial_error why = { 0 };
    auto_str struct str target = { 0 };
    struct api_call call = { .method = "DELETE", .about = "remove a container" };

    str_puts(&target, "/containers/");
    http_escape(&target, id);
    str_puts(&target, "?force=true&v=true");
    if (!str_ok(&target))
        return fail_memory(err);
    call.target = target.data;
    if (api_do(api, &call, NULL, &why) == 0)
        return 0;
    if (containers_is_gone(&why))
        return 1;
    if (err)
        *err = why;
    return -1;
}

int containers_sweep(const struct api *api, int64_t age_s, unsigned max,
                     unsigned *removed, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    json_t *container = NULL;
    unsigned count = 0;
    unsigned mine = 0;
    size_t i = 0;
    int rc = 0;

    if (removed)
        *removed = 0;
    if (ask_list(api, &answer, err) < 0)
        return -1;
    json_array_foreach(answer, i, container)
    {
        const char *id = json_string_value(json_object_get(container, "Id"));

        if (rc < 0 || count >= max || !id || !is_orphan(container) ||
            time(NULL) - json_integer_value(json_object_get(container, "Created")) <
                age_s)
            continue;
        rc = containers_remove(api, id, err);
        count++;
        mine += rc == 0;
    }
    if (removed)
        *removed = mine;
    return rc < 0 ? -1 : 0;
}
