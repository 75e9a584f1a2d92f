/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/usage.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "base/json.h"
#include "base/membership.h"

#define ASK_MS 5000

void container_usage_init(struct container_usage *c)
{
    c->pid = 0;
    cgroup_forget(&c->cgroup);
}

void container_usage_done(struct container_usage *c)
{
    cgroup_close(&c->cgroup);
    container_usage_init(c);
}

static int open_one(struct cgroup *c, const char *text, const char *controller)
{
    char own[PATH_MAX - 64];
    char path[PATH_MAX];

    if (membership_path(text, controller, own, sizeof(own)) < 0 || strstr(own, ".."))
        return -1;
    (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s%s%s", controller[0] ? "/" : "",
                   controller, own);
    return cgroup_open_dir(c, path);
}

static void open_groups(struct cgroup *c, const char *text)
{
    char path[PATH_MAX];

    if (membership_path(text, "memory", path, sizeof(path)) < 0) {
        c->dirs[0].fd = open_one(c, text, "");
        c->kind = c->dirs[0].fd >= 0 ? CGROUP_V2 : CGROUP_NONE;
        return;
    }
    for (size_t i = 0; i < CGROUP_JOINED; i++)
        c->dirs[i].fd = open_one(c, text, cgroup_v1_names[i]);
    c->kind = c->dirs[0].fd >= 0 ? CGROUP_V1 : CGROUP_NONE;
}

/* A test may say that the engine is far away, though it is not. */
static bool is_far(void)
{
    return getenv("VIAL_TEST_FAR") != NULL; /* NOLINT(concurrency-mt-unsafe) */
}

/* The container's id in its cgroup's name shows that PID is a number of ours and
 * not of another host's, or of another namespace. */
void container_usage_find(struct container_usage *c, pid_t pid, const char *id)
{
    char path[64];
    char text[8192];

    if (pid <= 1 || strlen(id) < 12 || is_far())
        return;
    (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    if (io_read_at(AT_FDCWD, path, text, sizeof(text)) <= 0 || !strstr(text, id))
        return;
    c->pid = pid;
    open_groups(&c->cgroup, text);
}

/* "  eth0: rx_bytes packets errs drop fifo frame compressed multicast tx_bytes" */
static void read_net(pid_t pid, struct vessel_usage *out)
{
    char path[64];
    char text[8192];
    char *save = NULL;

    (void)snprintf(path, sizeof(path), "/proc/%d/net/dev", (int)pid);
    if (io_read_at(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return;
    out->net_counted = true;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *at = strchr(line, ':');

        if (!at || strstr(line, " lo:"))
            continue;
        out->usage.net_rx_bytes += strtoull(at + 1, &at, 10);
        for (int i = 0; i < 7; i++)
            (void)strtoull(at, &at, 10);
        out->usage.net_tx_bytes += strtoull(at, &at, 10);
    }
}

bool container_usage_read(const struct container_usage *c, struct vessel_usage *out)
{
    *out = (struct vessel_usage){ 0 };
    if (c->cgroup.kind == CGROUP_NONE)
        return false;
    cgroup_read(&c->cgroup, out);
    read_net(c->pid, out);
    /* A group that is gone reads as zeros. */
    return out->usage.memory_peak_bytes > 0 || out->usage.cpu_user_ms > 0;
}

static double number_at(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void add_networks(json_t *networks, struct vessel_usage *out)
{
    const char *name = NULL;
    json_t *net = NULL;

    json_object_foreach(networks, name, net)
    {
        out->usage.net_rx_bytes += (uint64_t)number_at(net, "rx_bytes");
        out->usage.net_tx_bytes += (uint64_t)number_at(net, "tx_bytes");
    }
    out->net_counted = true;
}

/* cgroup v1 has one entry per device and kind; v2 the same with other names. */
static void add_blocks(json_t *blocks, struct vessel_usage *out)
{
    json_t *entry = NULL;
    size_t i = 0;

    json_array_foreach(json_object_get(blocks, "io_service_bytes_recursive"), i, entry)
    {
        const char *op = json_string_value(json_object_get(entry, "op"));

        if (op && strcasecmp(op, "read") == 0)
            out->usage.read_bytes += (uint64_t)number_at(entry, "value");
        else if (op && strcasecmp(op, "write") == 0)
            out->usage.write_bytes += (uint64_t)number_at(entry, "value");
    }
}

static void take_stats(json_t *stats, struct vessel_usage *out)
{
    json_t *all = json_object_get(stats, "cpu_stats");
    json_t *cpu = json_object_get(all, "cpu_usage");
    json_t *memory = json_object_get(stats, "memory_stats");
    double peak = number_at(memory, "max_usage"); /* cgroup v2 has no such */

    out->counted = json_is_object(cpu);
    out->usage.cpu_user_ms = number_at(cpu, "usage_in_usermode") / 1e6;
    out->usage.cpu_system_ms = number_at(cpu, "usage_in_kernelmode") / 1e6;
    out->usage.throttled_ms =
        number_at(json_object_get(all, "throttling_data"), "throttled_time") / 1e6;
    out->usage.memory_peak_bytes =
        (uint64_t)(peak > 0 ? peak : number_at(memory, "usage"));
    out->usage.pids_peak =
        (uint64_t)number_at(json_object_get(stats, "pids_stats"), "current");
    add_blocks(json_object_get(stats, "blkio_stats"), out);
    add_networks(json_object_get(stats, "networks"), out);
}

/* The engine notes that somebody in the container was killed for its memory, though
 * the container goes on. */
static void take_state(json_t *container, struct vessel_usage *out)
{
    json_t *state = json_object_get(container, "State");

    out->oom_kills = json_is_true(json_object_get(state, "OOMKilled")) ? 1 : 0;
}

void container_usage_ask(const struct api *api, const char *id,
                         struct vessel_usage *out)
{
    char target[160];
    auto_json json_t *stats = NULL;
    auto_json json_t *container = NULL;
    struct api_call call = { .method = "GET",
                             .target = target,
                             .timeout_ms = ASK_MS,
                             .about = "read a container's counters" };

    *out = (struct vessel_usage){ 0 };
    (void)snprintf(target, sizeof(target), "/containers/%s/json", id);
    if (api_do(api, &call, &container, NULL) == 0)
        take_state(container, out);
    (void)snprintf(target, sizeof(target),
                   "/containers/%s/stats?stream=false&one-shot=true", id);
    if (api_do(api, &call, &stats, NULL) == 0)
        take_stats(stats, out);
}
