/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/kubernetes.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/sys.h"
#include "driver/kubernetes/pod.h"

#define EXPLAIN_MS 8000 /* a node tells of an end within seconds */
#define REMOVE_MS  5000 /* whoever ends a run waits for it */
#define VERSION_MS 5000

static struct kube *kube_of(struct vessel *vessel)
{
    return (struct kube *)vessel;
}

/* The end of the stream is the guest's, and that its pod's. The cluster, which is asked
 * when the vessel is closed, takes longer to end it. */
static void kill_pod(struct vessel *vessel)
{
    struct kube *k = kube_of(vessel);

    if (!k->killed)
        pump_hang_up(k->pump);
    k->killed = true;
}

/* The API server may have taken the stream along. Many that were lost with it share the
 * time that it is waited for. */
static int64_t removal_ms(const struct kube *k)
{
    int64_t left_ms = AWAY_MS - (clock_now_ns() - k->lost_ns) / 1000000;

    return k->lost_ns && left_ms > REMOVE_MS ? left_ms : REMOVE_MS;
}

static void remove_pod(struct kube *k)
{
    if (k->path[0])
        (void)pods_remove_within(&k->api, k->path, k->last.uid, removal_ms(k), NULL);
}

/* The cluster hears of an end a little later than we do. */
static void explain(struct vessel *vessel, struct vial_error *err)
{
    struct kube *k = kube_of(vessel);
    const int64_t end_ns = clock_now_ns() + (int64_t)EXPLAIN_MS * 1000000;

    if (k->killed)
        return;
    k->lost_ns = clock_now_ns();
    while (pod_look(k, NULL) == 0 && k->last.phase == POD_RUNS &&
           !k->last.why.code[0] && clock_now_ns() < end_ns)
        (void)poll(NULL, 0, AGAIN_MS);
    if (k->last.why.code[0] && err)
        *err = k->last.why;
}

static void usage_of(struct vessel *vessel, struct vessel_usage *out)
{
    *out = (struct vessel_usage){ .oom_kills = kube_of(vessel)->last.oom ? 1 : 0 };
}

static void close_vessel(struct vessel *vessel)
{
    struct kube *k = kube_of(vessel);

    kill_pod(vessel);
    remove_pod(k);
    pump_stop(k->pump);
    str_done(&k->early);
    auto_fd_(&k->attached_fd);
    auto_fd_(&vessel->stream_fd);
    jail_done(&vessel->jail);
    strv_done(&vessel->layers);
    cluster_api_close(&k->api);
    free(k);
}

static int open_vessel(const struct plan *plan, int guest_fd, struct vessel **out,
                       struct vial_error *err)
{
    struct kube *k = NULL;

    if (pod_check(plan, err) < 0)
        return -1;
    k = calloc(1, sizeof(*k));
    if (!k)
        return fail_memory(err);
    k->vessel = (struct vessel){ .driver = &driver_kubernetes,
                                 .stream_fd = -1,
                                 .death_fd = -1, /* the stream's end tells */
                                 .event_fd = -1,
                                 .gate_fd = -1,
                                 .level = "container",
                                 .limits_by = "cgroup",
                                 .path = PATH_SEARCH };
    k->attached_fd = -1;
    sys_make_id('v', k->vessel.id);
    if (cluster_api_open(&k->api, err) < 0 || start_pod(k, plan, guest_fd, err) < 0) {
        close_vessel(&k->vessel);
        return -1;
    }
    *out = &k->vessel;
    return 0;
}

static int sweep(int cancel_fd, unsigned *removed, struct vial_error *err)
{
    auto_cluster_api struct cluster_api api = { 0 };

    *removed = 0;
    if (cluster_api_open(&api, err) < 0)
        return -1;
    api.cancel_fd = &cancel_fd;
    return pods_sweep(&api, 0, UINT_MAX, removed, err);
}

static struct layer *add_layer(struct caps *c, const char *name, bool available)
{
    struct layer *layer = &c->layers[c->layer_count++];

    *layer = (struct layer){ .name = name, .available = available };
    return layer;
}

static void add_layers(struct caps *c, json_t *version)
{
    const char *text = json_string_value(json_object_get(version, "gitVersion"));
    struct layer *layer = add_layer(c, "engine", true);

    (void)snprintf(layer->reason, sizeof(layer->reason), "version %.60s",
                   text ? text : "unknown");
    for (size_t i = 0; pod_layers[i]; i++)
        (void)add_layer(c, pod_layers[i], true);
    layer = add_layer(c, "landlock", false);
    (void)snprintf(layer->reason, sizeof(layer->reason),
                   "each node's kernel has it or not: a run's report tells");
    (void)add_layer(c, "limits", true);
}

/* A cluster that nobody has configured is not looked for. */
static int probe(struct caps *out, struct vial_error *err)
{
    auto_cluster_api struct cluster_api api = { 0 };
    auto_json json_t *version = NULL;
    const struct cluster_call call = { .method = "GET",
                                       .path = "/version",
                                       .timeout_ms = VERSION_MS,
                                       .about = "ask the cluster" };

    (void)err;
    memset(out, 0, sizeof(*out));
    out->level = out->limits_by = "none";
    if (cluster_api_open(&api, &out->why_not) < 0)
        return 0;
    api.retries = 0;
    if (cluster_do(&api, &call, &version, &out->why_not) < 0)
        return 0;
    out->usable = true;
    out->level = "container";
    out->limits_by = "cgroup";
    add_layers(out, version);
    return 0;
}

static int describe(const struct plan *plan, const char *share_dir, json_t *into,
                    struct vial_error *err)
{
    const struct pod_options o = { .vessel_id = "v-0000000000000000",
                                   .owner = "",
                                   .host = "",
                                   .arch = "amd64",
                                   .uid = pod_user("v-0000000000000000") };
    json_t *pod = NULL;

    (void)share_dir;
    if (pod_check(plan, err) < 0)
        return -1;
    pod = pod_json(plan, &o);
    return pod && json_object_set_new(into, "pod", pod) == 0 ? 0 : fail_memory(err);
}

const struct driver driver_kubernetes = {
    .name = "kubernetes",
    .probe = probe,
    .open = open_vessel,
    .kill = kill_pod,
    .usage = usage_of,
    .explain = explain,
    .close = close_vessel,
    .sweep = sweep,
    .list = pods_list_all,
    .unheld = FIELD_BIT(FIELD_ID_inodes),
    .describe = describe,
    .wants_image = true,
    .far = true,
    .waits = true,
};
