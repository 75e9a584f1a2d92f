/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/pod_status.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"
#include "driver/kubernetes/cluster_api.h"
#include "driver/kubernetes/pod.h"

static const char *text_of(json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* What a reason means, in the order of the cluster's own words for it. */
struct meaning {
    const char *reason;
    enum fail_code code;
    const char *what, *remedy;
};

#define IMAGE_REMEDY                                                                   \
    "check the image's name, and that the nodes may pull it; 'kubectl describe pod' "  \
    "says more"
#define START_REMEDY                                                                   \
    "use an image with /bin/sh and head, for programs of the nodes' architecture"

static const struct meaning waiting[] = {
    { "ErrImagePull", VIAL_E_CLUSTER_IMAGE, "the node cannot pull its image",
      IMAGE_REMEDY },
    { "ImagePullBackOff", VIAL_E_CLUSTER_IMAGE, "the node cannot pull its image",
      IMAGE_REMEDY },
    { "ErrImageNeverPull", VIAL_E_CLUSTER_IMAGE,
      "its image is not on the node, and is not to be pulled",
      "use '--pull missing', or bring the image to the nodes" },
    { "InvalidImageName", VIAL_E_CLUSTER_IMAGE, "its image's name is not valid",
      IMAGE_REMEDY },
    { "ImageInspectError", VIAL_E_CLUSTER_IMAGE, "its image is not whole",
      IMAGE_REMEDY },
    { "RegistryUnavailable", VIAL_E_CLUSTER_IMAGE, "its registry does not answer",
      IMAGE_REMEDY },
    { "CreateContainerConfigError", VIAL_E_CLUSTER_START,
      "its container cannot be made", START_REMEDY },
    { "CreateContainerError", VIAL_E_CLUSTER_START, "its container cannot be made",
      START_REMEDY },
    { "RunContainerError", VIAL_E_CLUSTER_START, "its container cannot be started",
      START_REMEDY },
    { NULL, VIAL_E_CLUSTER_START, NULL, NULL },
};

static const struct meaning ended[] = {
    { "Evicted", VIAL_E_CLUSTER_EVICTED, "its node evicted it",
      "run it again; give nodes more room, or ask for less" },
    { "DeadlineExceeded", VIAL_E_CLUSTER_DEADLINE,
      "the cluster ended it at its own deadline",
      "run it again with a longer '--timeout', and look at the nodes' clocks" },
    { "NodeLost", VIAL_E_CLUSTER_NODE, "its node was lost", "run it again" },
    { "Terminated", VIAL_E_CLUSTER_NODE, "its node went down", "run it again" },
    { "NodeShutdown", VIAL_E_CLUSTER_NODE, "its node went down", "run it again" },
    { "Shutdown", VIAL_E_CLUSTER_NODE, "its node went down", "run it again" },
    { "Preempting", VIAL_E_CLUSTER_EVICTED, "it gave way to a more important pod",
      "run it again" },
    { "NodeAffinity", VIAL_E_CLUSTER_ROOM, "its node does not take it",
      "run it again" },
    { "OutOfcpu", VIAL_E_CLUSTER_ROOM, "its node has no processor left for it",
      "ask for less with '--cpus', or add nodes" },
    { "OutOfmemory", VIAL_E_CLUSTER_ROOM, "its node has no memory left for it",
      "ask for less with '--memory', or add nodes" },
    { "OutOfpods", VIAL_E_CLUSTER_ROOM, "its node takes no more pods", "add nodes" },
    { "OutOfephemeral-storage", VIAL_E_CLUSTER_ROOM, "its node has no disk left for it",
      "add nodes, or disk" },
    { NULL, VIAL_E_CLUSTER_NODE, NULL, NULL },
};

static const struct meaning *find(const struct meaning *table, const char *reason)
{
    for (; table->reason; table++)
        if (str_eq(table->reason, reason))
            return table;
    return NULL;
}

static void say(struct pod_status *out, const struct meaning *m, const char *text)
{
    (void)fail(&out->why, m->code, "the pod: %s", m->what);
    (void)fail_remedy(&out->why, "%s", m->remedy);
    cluster_add_cause(&out->why, text);
}

/* Of the list under KEY the member whose FIELD is VALUE. */
static json_t *member(json_t *object, const char *key, const char *field,
                      const char *value)
{
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(json_object_get(object, key), i, item)
    {
        if (str_eq(text_of(item, field), value))
            return item;
    }
    return NULL;
}

/* Not an end of its waiting: room may come. */
static void read_place(json_t *status, struct pod_status *out)
{
    json_t *placed = member(status, "conditions", "type", "PodScheduled");

    if (!str_eq(text_of(placed, "status"), "False"))
        return;
    (void)fail(&out->why, VIAL_E_CLUSTER_ROOM, "the pod: no node has room for it");
    (void)fail_remedy(&out->why,
                      "ask for less with '--memory' and '--cpus', add nodes, look at "
                      "'node_selector' and 'tolerations' of the settings, or wait "
                      "longer with '--open-timeout'");
    cluster_add_cause(&out->why, text_of(placed, "message"));
}

static void read_waiting(json_t *state, struct pod_status *out)
{
    const struct meaning *m = find(waiting, text_of(state, "reason"));

    if (!m)
        return;
    out->phase = POD_NEVER;
    say(out, m, text_of(state, "message"));
}

/* One that could not be started has ended, too, as some runtimes have it. */
static void read_terminated(json_t *state, struct pod_status *out)
{
    const char *reason = text_of(state, "reason");
    json_int_t code = json_integer_value(json_object_get(state, "exitCode"));

    out->oom = str_eq(reason, "OOMKilled");
    if (str_eq(reason, "StartError") || str_eq(reason, "ContainerCannotRun") ||
        code == 126 || code == 127) {
        out->phase = POD_NEVER;
        say(out,
            &(struct meaning){ NULL, VIAL_E_CLUSTER_START,
                               "its container cannot be started", START_REMEDY },
            text_of(state, "message"));
    }
}

/* "registry/name@sha256:…", or "sha256:…" alone, which names the config. */
static void read_digest(json_t *container, struct pod_status *out)
{
    const char *id = text_of(container, "imageID");
    const char *at = id ? strstr(id, "sha256:") : NULL;

    if (at && strlen(at) == 71 && strspn(at + 7, "0123456789abcdef") == 64)
        (void)snprintf(out->digest, sizeof(out->digest), "%s", at);
}

static void read_container(json_t *container, struct pod_status *out)
{
    json_t *state = json_object_get(container, "state");

    read_digest(container, out);
    if (json_object_get(state, "running"))
        out->phase = POD_RUNS;
    else if (json_object_get(state, "terminated")) {
        out->phase = POD_ENDED;
        read_terminated(json_object_get(state, "terminated"), out);
    } else {
        read_waiting(json_object_get(state, "waiting"), out);
    }
}

static void read_end(json_t *status, struct pod_status *out)
{
    const struct meaning *m = find(ended, text_of(status, "reason"));
    const char *phase = text_of(status, "phase");

    if (!m && !str_eq(phase, "Failed") && !str_eq(phase, "Succeeded"))
        return;
    if (out->phase != POD_NEVER)
        out->phase = POD_ENDED;
    if (m)
        say(out, m, text_of(status, "message"));
}

int pod_status_gone(struct vial_error *err)
{
    (void)fail(err, VIAL_E_CLUSTER_GONE, "the pod: somebody deleted it");
    return fail_remedy(err, "run it again; the cluster's audit log says who did");
}

/* READY is a pod's condition. Its node gives a reason whenever it is not so; whoever
 * has not heard of the node for a while gives none, or the node's. */
static bool is_lost(json_t *ready)
{
    const char *reason = text_of(ready, "reason");

    return str_eq(text_of(ready, "status"), "False") &&
           (!reason || !*reason || str_eq(reason, "NodeNotReady"));
}

void pod_status_read(json_t *pod, struct pod_status *out)
{
    json_t *metadata = json_object_get(pod, "metadata");
    json_t *status = json_object_get(pod, "status");
    const char *uid = text_of(metadata, "uid");
    json_t *ready = member(status, "conditions", "type", "Ready");

    *out = (struct pod_status){ .phase = POD_WAITS };
    (void)snprintf(out->uid, sizeof(out->uid), "%s", uid ? uid : "");
    read_place(status, out);
    read_container(member(status, "containerStatuses", "name", POD_CONTAINER), out);
    read_end(status, out);
    if (json_object_get(metadata, "deletionTimestamp") && !out->why.code[0]) {
        out->phase = out->phase == POD_WAITS ? POD_NEVER : POD_ENDED;
        (void)pod_status_gone(&out->why);
    }
    if (out->phase == POD_RUNS && is_lost(ready))
        say(out, find(ended, "NodeLost"), text_of(ready, "message"));
}
