/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/owner.h"
#include "driver/docker/containers.h"
#include "driver/kubernetes/kubernetes.h"
#include "driver/kubernetes/pod.h"

#define REMOVE_MS 5000 /* whoever ends a run waits for it */
#define ENDED_S   60   /* its owner may still be reading what ended it */

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text && *text ? text : NULL;
}

static bool has_ended(json_t *pod)
{
    const char *phase = text_of(json_object_get(pod, "status"), "phase");

    return str_eq(phase, "Succeeded") || str_eq(phase, "Failed");
}

static int64_t age_of(json_t *pod)
{
    json_t *metadata = json_object_get(pod, "metadata");

    return (int64_t)time(NULL) - cluster_time(text_of(metadata, "creationTimestamp"));
}

/* How long ago the last of its containers ended; without one, since it was made. */
static int64_t ended_ago(json_t *pod)
{
    json_t *all = json_object_get(json_object_get(pod, "status"), "containerStatuses");
    int64_t last = 0;
    json_t *one;
    size_t i;

    json_array_foreach(all, i, one)
    {
        json_t *end = json_object_get(json_object_get(one, "state"), "terminated");
        int64_t at = cluster_time(text_of(end, "finishedAt"));

        last = at > last ? at : last;
    }
    return last ? (int64_t)time(NULL) - last : age_of(pod);
}

/* Of another host, or an earlier boot, the owner's number says nothing here. What has
 * ended is of no use to anybody. */
static bool is_orphan(json_t *pod)
{
    json_t *notes = json_object_get(json_object_get(pod, "metadata"), "annotations");
    const char *host = text_of(notes, POD_HOST);
    const char *owner = text_of(notes, POD_OWNER);
    char own[CONTAINERS_HOST];

    containers_host(own);
    if (has_ended(pod) && ended_ago(pod) > ENDED_S)
        return true;
    if (!str_eq(host, own))
        return false;
    return owner && owner_is_dead(owner);
}

static int ask_list(struct cluster_api *api, json_t **out, struct vial_error *err)
{
    char path[POD_PATH_MAX];
    const struct cluster_call call = { .method = "GET",
                                       .path = path,
                                       .about = "list the pods" };

    (void)snprintf(path, sizeof(path),
                   "/api/v1/namespaces/%s/pods?labelSelector=" POD_MANAGED "%%3Dtrue",
                   api->cluster.namespace);
    return cluster_do(api, &call, out, err);
}

int pods_remove(struct cluster_api *api, const char *path, const char *uid,
                struct vial_error *err)
{
    auto_json json_t *body = json_pack("{s:s, s:s, s:i}", "apiVersion", "v1", "kind",
                                       "DeleteOptions", "gracePeriodSeconds", 1);
    struct vial_error why = { 0 };
    const struct cluster_call call = { .method = "DELETE",
                                       .path = path,
                                       .body = body,
                                       .timeout_ms = REMOVE_MS,
                                       .about = "remove the pod" };

    if (!body || (uid[0] && json_object_set_new(body, "preconditions",
                                                json_pack("{s:s}", "uid", uid)) < 0))
        return fail_memory(err);
    if (cluster_do(api, &call, NULL, &why) == 0)
        return 0;
    /* 409: it is another one by now. */
    if (cluster_is_missing(&why) || cluster_is_taken(&why))
        return 1;
    if (err)
        *err = why;
    return -1;
}

int pods_remove_within(struct cluster_api *api, const char *path, const char *uid,
                       int64_t ms, struct vial_error *err)
{
    const int64_t end_ns = clock_now_ns() + ms * 1000000;

    for (;;) {
        struct vial_error why = { 0 };
        int rc = pods_remove(api, path, uid, &why);

        if (rc >= 0 || clock_now_ns() >= end_ns) {
            if (rc < 0 && err)
                *err = why;
            return rc;
        }
        (void)poll(NULL, 0, AGAIN_MS);
    }
}

/* A name that the cluster gave back stands in a path. */
static bool is_name(const char *text)
{
    return text && strlen(text) < 128 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-") == strlen(text);
}

static int remove_orphan(struct cluster_api *api, json_t *pod, struct vial_error *err)
{
    json_t *metadata = json_object_get(pod, "metadata");
    const char *name = text_of(metadata, "name");
    const char *uid = text_of(metadata, "uid");
    char path[POD_PATH_MAX];

    if (!is_name(name) || !uid)
        return 1;
    (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s",
                   api->cluster.namespace, name);
    return pods_remove(api, path, uid, err);
}

/* One that is being deleted is on its way. */
static bool is_leaving(json_t *pod)
{
    return json_object_get(json_object_get(pod, "metadata"), "deletionTimestamp") !=
           NULL;
}

int pods_sweep(struct cluster_api *api, int64_t age_s, unsigned max, unsigned *removed,
               struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    json_t *pod = NULL;
    unsigned count = 0;
    size_t i = 0;

    *removed = 0;
    if (ask_list(api, &answer, err) < 0)
        return -1;
    json_array_foreach(json_object_get(answer, "items"), i, pod)
    {
        int rc;

        if (count >= max || is_leaving(pod) || !is_orphan(pod) || age_of(pod) < age_s)
            continue;
        rc = remove_orphan(api, pod, err);
        if (rc < 0)
            return -1;
        count++;
        *removed += rc == 0;
    }
    return 0;
}

static const char *state_of(json_t *pod, char *room, size_t size)
{
    const char *phase = text_of(json_object_get(pod, "status"), "phase");

    (void)snprintf(room, size, "%s", is_leaving(pod) ? "removing" : phase ? phase : "");
    for (char *at = room; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at + 'a' - 'A' : *at);
    return room;
}

static int add_pod(struct vial_vessels *list, json_t *pod)
{
    json_t *metadata = json_object_get(pod, "metadata");
    json_t *labels = json_object_get(metadata, "labels");
    json_t *notes = json_object_get(metadata, "annotations");
    json_t *spec = json_object_get(pod, "spec");
    json_t *container = json_array_get(json_object_get(spec, "containers"), 0);
    char state[32];
    const struct vial_vessel v = {
        .driver = "kubernetes",
        .id = text_of(metadata, "uid"),
        .name = text_of(metadata, "name"),
        .vessel = text_of(labels, POD_VESSEL),
        .session = text_of(notes, POD_SESSION),
        .task = text_of(notes, POD_TASK),
        .image = text_of(container, "image"),
        .state = state_of(pod, state, sizeof(state)),
        .created = cluster_time(text_of(metadata, "creationTimestamp")),
        .orphan = is_orphan(pod),
    };

    return vessels_add(list, &v);
}

static int list_pods(struct cluster_api *api, struct vial_vessels *list,
                     struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    json_t *pod = NULL;
    size_t i = 0;

    if (ask_list(api, &answer, err) < 0)
        return -1;
    json_array_foreach(json_object_get(answer, "items"), i, pod)
    {
        if (add_pod(list, pod) < 0)
            return fail_memory(err);
    }
    return 0;
}

int pods_list_all(struct vial_vessels *list, struct vial_error *err)
{
    auto_cluster_api struct cluster_api api = { 0 };

    return cluster_api_open(&api, err) < 0 ? -1 : list_pods(&api, list, err);
}
