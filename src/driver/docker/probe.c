/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "driver/docker/docker.h"
#include "driver/native/native.h"

static struct layer *add(struct caps *c, const char *name, bool available)
{
    struct layer *layer = &c->layers[c->layer_count++];

    *layer = (struct layer){ .name = name, .available = available };
    return layer;
}

static bool says(json_t *info, const char *option)
{
    json_t *list = json_object_get(info, "SecurityOptions");
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(list, i, item)
    {
        if (json_is_string(item) && strstr(json_string_value(item), option))
            return true;
    }
    return false;
}

static void add_walls(struct caps *c, json_t *info)
{
    static const char *const always[] = { "pid",  "mount",  "net",     "ipc",
                                          "uts",  "cgroup", "overlay", "no_new_privs",
                                          "caps", "ro_root" };
    bool remapped = says(info, "userns") || says(info, "rootless");
    struct layer *layer = NULL;

    for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
        (void)add(c, always[i], true);
    layer = add(c, "user", remapped);
    if (!remapped) {
        (void)snprintf(layer->reason, sizeof(layer->reason),
                       "the engine maps no user ids");
        (void)snprintf(layer->fix, sizeof(layer->fix),
                       "set \"userns-remap\": \"default\" in /etc/docker/daemon.json");
    }
    layer = add(c, "seccomp", says(info, "seccomp"));
    if (!layer->available)
        (void)snprintf(layer->reason, sizeof(layer->reason),
                       "the engine is built without it");
    (void)add(c, "landlock", native_landlock_abi() > 0);
}

static void add_limits(struct caps *c, json_t *info)
{
    static const char *const needed[] = { "MemoryLimit", "PidsLimit", "CpuCfsQuota" };
    const char *version = json_string_value(json_object_get(info, "CgroupVersion"));
    struct layer *layer = add(c, "limits", true);

    c->limits_by = str_eq(version, "2") ? "cgroup2" : "cgroup1";
    for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
        if (!json_is_false(json_object_get(info, needed[i])))
            continue;
        layer->available = false;
        c->limits_by = "none";
        (void)snprintf(layer->reason, sizeof(layer->reason),
                       "the engine has no %s on this host", needed[i]);
    }
}

static void add_engine(struct caps *c, json_t *info)
{
    const char *version = json_string_value(json_object_get(info, "ServerVersion"));
    struct layer *layer = add(c, "engine", true);

    (void)snprintf(layer->reason, sizeof(layer->reason), "version %.60s",
                   version ? version : "unknown");
}

int docker_probe(struct caps *out, struct vial_error *err)
{
    struct api api;
    auto_json json_t *info = NULL;
    struct api_call call = { .method = "GET",
                             .target = "/info",
                             .about = "ask the container engine" };

    (void)err;
    memset(out, 0, sizeof(*out));
    out->level = out->limits_by = "none";
    if (api_find(&api, &out->why_not) < 0 ||
        api_do(&api, &call, &info, &out->why_not) < 0)
        return 0;
    out->usable = true;
    out->level = "container";
    add_engine(out, info);
    add_walls(out, info);
    add_limits(out, info);
    return 0;
}
