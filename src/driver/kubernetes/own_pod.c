/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/own_pod.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"

#define LOOK_MS    5000
#define MOUNTS_MAX (1u << 20)

/* As the operator says it, where a pod has another host name than its own. */
static void name_of(char *out, size_t size)
{
    const char *said =
        getenv("VIAL_KUBERNETES_POD"); /* NOLINT(concurrency-mt-unsafe) */

    if (said && *said)
        (void)snprintf(out, size, "%s", said);
    else if (gethostname(out, size) < 0)
        out[0] = '\0';
    out[size - 1] = '\0';
}

/* It stands in a path. */
static bool is_name(const char *text)
{
    return *text && text[0] != '.' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-") == strlen(text);
}

static void add_address(struct strv *out, const struct sockaddr *at)
{
    const void *whole = at;
    const struct sockaddr_in *v4 = whole;
    const struct sockaddr_in6 *v6 = whole;
    char text[INET6_ADDRSTRLEN] = "";

    if (at && at->sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    if (at && at->sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    if (text[0])
        strv_push(out, text);
}

static void add_addresses(struct strv *out)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next)
        add_address(out, one->ifa_addr);
    freeifaddrs(all);
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* "/pods/UID/" is in the name of each file that a node mounts into a container. */
static bool is_mounted(const struct blob *mounts, const char *uid)
{
    char part[80];

    (void)snprintf(part, sizeof(part), "/pods/%s/", uid);
    return mounts->data && strstr(mounts->data, part);
}

static bool is_seen(json_t *pod, const char *uid, const struct own_view *view)
{
    json_t *status = json_object_get(pod, "status");

    return is_mounted(&view->mounts, uid) ||
           (str_eq(text_of(status, "phase"), "Running") &&
            strv_has(&view->addresses, text_of(status, "podIP")));
}

/* A number of the cluster's. */
static bool is_uid(const char *text)
{
    size_t len = strlen(text);

    return len >= 8 && len < sizeof(((struct own_pod *)NULL)->uid) &&
           strspn(text, "0123456789abcdef-") == len;
}

bool own_pod_read(json_t *pod, const char *name, const struct own_view *view,
                  struct own_pod *out)
{
    json_t *metadata = json_object_get(pod, "metadata");
    const char *uid = text_of(metadata, "uid");

    *out = (struct own_pod){ .name = "" };
    if (!str_eq(text_of(metadata, "name"), name) || !is_uid(uid) ||
        json_object_get(metadata, "deletionTimestamp") || !is_seen(pod, uid, view))
        return false;
    (void)snprintf(out->name, sizeof(out->name), "%s", name);
    (void)snprintf(out->uid, sizeof(out->uid), "%s", uid);
    return true;
}

void own_pod_find(struct cluster_api *api, struct own_pod *out)
{
    struct own_view view = { .mounts = { 0 } };
    auto_json json_t *pod = NULL;
    char name[256];
    char path[512];
    const struct cluster_call call = {
        .method = "GET", .path = path, .timeout_ms = LOOK_MS, .about = "look at our pod"
    };

    *out = (struct own_pod){ .name = "" };
    name_of(name, sizeof(name));
    if (!api->cluster.at_home || !is_name(name))
        return;
    (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s",
                   api->cluster.namespace, name);
    if (cluster_do(api, &call, &pod, NULL) < 0)
        return;
    add_addresses(&view.addresses);
    (void)io_read_file("/proc/self/mountinfo", MOUNTS_MAX, &view.mounts, NULL);
    (void)own_pod_read(pod, name, &view, out);
    strv_done(&view.addresses);
    blob_done(&view.mounts);
}
