/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/path.h"
#include "driver/gate_process.h"
#include "plan/labels.h"

#define GUEST_FDS  1024
#define INODES_ANY 100000000 /* the most that can be asked for: no limit */
/* There is nothing that would end by itself if it were asked to: an engine that goes
 * down need not wait. */
#define STOP_S      1
#define EMPTY_BYTES 65536 /* room for the directories of other mounts, if any */
#define RESOLVERS   3     /* how many name servers a resolver asks at most */
#define SYN_MS      1000  /* TCP_TIMEOUT_INIT */
#define RESEND_MS   200   /* TCP_RTO_MIN */

void container_name(struct str *out, const struct plan *plan, const char *vessel_id,
                    bool unique)
{
    labels_name(out, plan->container.prefix, plan);
    if (unique || (!plan->label_task && !plan->label_session))
        str_printf(out, "-%s", str_starts(vessel_id, "v-") ? vessel_id + 2 : vessel_id);
}

/* A preset's own label keys; ours are there as well, for whoever cleans up. */
static void add_labels(json_t *labels, const struct plan *plan)
{
    const struct {
        const char *key, *value;
    } rows[] = { { "managed", "true" },
                 { "session", plan->label_session },
                 { "task", plan->label_task } };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        auto_str struct str key = { 0 };

        str_printf(&key, "%s.%s", plan->container.prefix, rows[i].key);
        if (rows[i].value && str_ok(&key))
            json_object_set_new(labels, key.data, json_string(rows[i].value));
    }
}

static json_t *labels(const struct plan *plan, const struct container_options *o)
{
    json_t *labels = json_pack(
        "{s:s, s:s, s:s, s:s, s:s*, s:s*, s:s*}", LABEL_MANAGED, "true", LABEL_VESSEL,
        o->vessel_id, LABEL_RUN, plan->id, LABEL_OWNER, o->owner, LABEL_HOST, o->host,
        LABEL_SESSION, plan->label_session, LABEL_TASK, plan->label_task);

    if (labels && plan->container.prefix)
        add_labels(labels, plan);
    /* A label that a container does not set is the image's. */
    for (size_t i = 0; labels && o->posing && i < o->posing->count; i++)
        if (!json_object_get(labels, o->posing->items[i]))
            json_object_set_new(labels, o->posing->items[i], json_string(""));
    return labels;
}

unsigned container_user(const char *vessel_id)
{
    const char *number = str_starts(vessel_id, "v-") ? vessel_id + 2 : vessel_id;

    return CONTAINER_OWN_FIRST +
           (unsigned)(strtoull(number, NULL, 16) % CONTAINER_OWN_COUNT);
}

static json_t *bind(const char *source, const char *target, bool writable)
{
    return json_pack("{s:s, s:s, s:s, s:b, s:{s:s}}", "Type", "bind", "Source", source,
                     "Target", target, "ReadOnly", !writable, "BindOptions",
                     "Propagation", "rprivate");
}

/* Without a name: it goes with the container. Only root could write to it. */
static json_t *own_volume(void)
{
    return json_pack("{s:s, s:s, s:b, s:{s:b}}", "Type", "volume", "Target",
                     CONTAINER_GUEST_DIR, "ReadOnly", 0, "VolumeOptions", "NoCopy", 1);
}

/* Nothing of the image gets into it: later runs have other images. */
static json_t *cache(const struct plan_cache *c)
{
    return json_pack("{s:s, s:s, s:s, s:b, s:{s:b, s:{s:s}}}", "Type", "volume",
                     "Source", c->volume, "Target", c->target, "ReadOnly", 0,
                     "VolumeOptions", "NoCopy", 1, "Labels", LABEL_CACHE, "true");
}

static bool is_target(json_t *mounts, const char *path)
{
    json_t *mount = NULL;
    size_t i = 0;

    json_array_foreach(mounts, i, mount)
    {
        if (str_eq(json_string_value(json_object_get(mount, "Target")), path))
            return true;
    }
    return false;
}

/* A VOLUME would be a disk of the engine's, without a size. In its place is an empty
 * directory, in which root alone could write, and nobody is root. */
static void add_volumes(json_t *list, const struct plan *plan,
                        const struct container_options *o)
{
    for (size_t i = 0; o->volumes && i < o->volumes->count; i++) {
        const char *path = o->volumes->items[i];

        if (is_target(list, path) || str_eq(path, "/tmp") ||
            str_eq(path, plan_scratch(plan)))
            continue;
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:{s:i, s:i}}", "Type", "tmpfs", "Target", path,
                            "TmpfsOptions", "SizeBytes", EMPTY_BYTES, "Mode", 0555));
    }
}

/* Over what is hidden lies what every engine's host has, and nobody listens at. */
static void add_covers(json_t *list, const struct plan_mount *m)
{
    for (size_t i = 0; i < m->hidden.count; i++) {
        auto_str struct str target = { 0 };

        str_printf(&target, "%s%s", m->target, m->hidden.items[i]);
        if (str_ok(&target))
            (void)json_array_append_new(list, bind("/dev/null", target.data, false));
    }
}

/* Of this type a source that does not exist is an error; of the older one
 * ("Binds") the engine makes a directory of it. */
static json_t *mounts(const struct plan *plan, const struct container_options *o)
{
    json_t *list = json_array();

    if (o->place == ENTRY_BIND)
        (void)json_array_append_new(list, bind(o->guest_path, CONTAINER_GUEST, false));
    else if (o->place == ENTRY_COPY)
        (void)json_array_append_new(list, own_volume());
    if (o->place == ENTRY_BIND && o->guest_socket_dir)
        (void)json_array_append_new(list,
                                    bind(o->guest_socket_dir, CONTAINER_LINE, false));
    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct plan_mount *m = &plan->mounts[i];

        (void)json_array_append_new(list, bind(m->source, m->target, m->writable));
        add_covers(list, m);
    }
    for (size_t i = 0; i < plan->container.cache_count; i++)
        (void)json_array_append_new(list, cache(&plan->container.caches[i]));
    add_volumes(list, plan, o);
    return list;
}

/* Without a limit on files the options are few enough for Podman, too, which knows
 * neither that nor owners. */
static json_t *tmpfs_options(int64_t bytes, int64_t inodes, const char *mode,
                             const struct container_options *o)
{
    if (inodes >= INODES_ANY)
        return json_sprintf("rw,exec,nosuid,nodev,size=%lld,mode=1777",
                            (long long)bytes);
    return json_sprintf("rw,exec,nosuid,nodev,size=%lld,nr_inodes=%lld,mode=%s,uid=%u,"
                        "gid=%u",
                        (long long)bytes, (long long)inodes, mode, o->uid, o->gid);
}

static json_t *tmpfs(const struct plan *plan, const struct container_options *o)
{
    const struct limits *l = &plan->limits;

    return json_pack("{s:o, s:o}", plan_scratch(plan),
                     tmpfs_options(l->disk_bytes, l->inodes, "0755", o), "/tmp",
                     tmpfs_options(l->tmp_bytes, l->inodes, "1777", o));
}

static json_t *ulimit(const char *name, int64_t value)
{
    return json_pack("{s:s, s:I, s:I}", "Name", name, "Soft", (json_int_t)value, "Hard",
                     (json_int_t)value);
}

/* One process more than the limit, for the guest, and one for who waits beside it.
 * Where programs have a ulimit of as many, the guest is one of them: that the cgroup
 * refuses a process, it tells; that the ulimit does, nobody would hear of. */
static int64_t all_pids(const struct plan *plan, enum guest_entry place)
{
    int64_t beside = place == ENTRY_EXEC ? 1 : 0;

    if (plan->container.nproc && plan->limits.pids > 1)
        return plan->limits.pids + beside;
    return plan->limits.pids + 1 + beside;
}

/* For the guest, which gives programs the exact ones. None on processes: the kernel
 * counts those of a user all over the host. The guest sees to that one, too. */
static json_t *ulimits(const struct plan *plan)
{
    const struct limits *l = &plan->limits;
    json_t *list = json_array();
    int64_t files = l->open_files > GUEST_FDS ? l->open_files : GUEST_FDS;

    (void)json_array_append_new(list, ulimit("core", 1));
    (void)json_array_append_new(list, ulimit("nofile", files));
    return list;
}

/* The paths that tell about the host, or about other vessels: all that engines hide by
 * themselves, and more. */
static json_t *masked_paths(void)
{
    static const char *const paths[] = {
        "/proc/acpi",          "/proc/asound",     "/proc/interrupts",
        "/proc/kallsyms",      "/proc/kcore",      "/proc/keys",
        "/proc/kpagecount",    "/proc/kpageflags", "/proc/key-users",
        "/proc/latency_stats", "/proc/modules",    "/proc/sched_debug",
        "/proc/scsi",          "/proc/timer_list", "/proc/timer_stats",
        "/sys/devices",        "/sys/firmware",    "/sys/kernel",
        "/sys/module",
    };
    json_t *list = json_array();

    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        (void)json_array_append_new(list, json_string(paths[i]));
    return list;
}

static json_t *security(const struct container_options *o)
{
    return json_pack("[s, o]", "no-new-privileges",
                     json_sprintf("seccomp=%s", o->seccomp));
}

/* Swap is off: MemorySwap counts memory and swap together. */
static void add_limits(json_t *host, const struct plan *plan, enum guest_entry place)
{
    const struct limits *l = &plan->limits;

    if (l->memory_bytes > 0) {
        json_object_set_new(host, "Memory", json_integer(l->memory_bytes));
        json_object_set_new(host, "MemorySwap", json_integer(l->memory_bytes));
    }
    if (l->pids > 0)
        json_object_set_new(host, "PidsLimit", json_integer(all_pids(plan, place)));
    if (l->milli_cpus > 0)
        json_object_set_new(host, "NanoCpus", json_integer(l->milli_cpus * 1000000));
}

static const char *network_of(const struct plan *plan)
{
    if (plan->network != NETWORK_BRIDGE)
        return "none";
    return plan->container.network_name ? plan->container.network_name : "bridge";
}

static void port_key(const struct plan_port *port, char out[16])
{
    (void)snprintf(out, 16, "%u/%s", port->inside, port->udp ? "udp" : "tcp");
}

static json_t *exposed_ports(const struct plan_container *c)
{
    json_t *object = json_object();
    char key[16];

    for (size_t i = 0; i < c->port_count; i++) {
        port_key(&c->ports[i], key);
        json_object_set_new(object, key, json_object());
    }
    return object;
}

/* One port inside may be reached through several of the host's. */
static json_t *port_bindings(const struct plan_container *c)
{
    json_t *object = json_object();
    char key[16];

    for (size_t i = 0; i < c->port_count; i++) {
        const struct plan_port *port = &c->ports[i];

        port_key(port, key);
        if (!json_object_get(object, key))
            json_object_set_new(object, key, json_array());
        (void)json_array_append_new(json_object_get(object, key),
                                    json_pack("{s:s, s:o}", "HostIp", port->address,
                                              "HostPort",
                                              json_sprintf("%u", port->host)));
    }
    return object;
}

/* After N tries the kernel has waited FIRST_MS * (2^(N+1) - 1): as many as fit. */
static json_t *tries(int64_t limit_ms, int64_t first_ms, int most)
{
    int n = 1;

    while (n < most && first_ms * ((INT64_C(4) << n) - 1) <= limit_ms)
        n++;
    return json_sprintf("%d", n);
}

/* How long the kernel of the container's own namespace tries to connect, and to get
 * data through; and its resolver to find a name, of whose up to three servers it asks
 * each once. */
static void add_network_timeout(json_t *host, const struct plan_container *c)
{
    int64_t servers = c->dns.count ? (int64_t)c->dns.count : RESOLVERS;
    int64_t seconds =
        c->network_ms / 1000 / (servers < RESOLVERS ? servers : RESOLVERS);

    if (!c->network_ms)
        return;
    json_object_set_new(host, "Sysctls",
                        json_pack("{s:o, s:o}", "net.ipv4.tcp_syn_retries",
                                  tries(c->network_ms, SYN_MS, 10),
                                  "net.ipv4.tcp_retries2",
                                  tries(c->network_ms, RESEND_MS, 15)));
    json_object_set_new(
        host, "DnsOptions",
        json_pack(
            "[o, s]",
            json_sprintf("timeout:%lld", seconds < 30 ? (long long)seconds : 30LL),
            "attempts:1"));
}

/* Names are the guest's, which listens on low ports without any right to. */
static void add_gate(json_t *host)
{
    json_object_set_new(host, "Dns", json_pack("[s]", GATE_DNS));
    json_object_set_new(host, "Sysctls",
                        json_pack("{s:s}", "net.ipv4.ip_unprivileged_port_start", "0"));
}

/* Only with a network: what the plan has without one is never used. */
static void add_network(json_t *host, const struct plan *plan)
{
    const struct plan_container *c = &plan->container;
    json_t *dns = NULL;

    if (plan->network == NETWORK_GATE)
        add_gate(host);
    if (plan->network != NETWORK_BRIDGE)
        return;
    if (c->dns.count > 0) {
        dns = json_array();
        for (size_t i = 0; i < c->dns.count; i++)
            (void)json_array_append_new(dns, json_string(c->dns.items[i]));
        json_object_set_new(host, "Dns", dns);
    }
    if (c->port_count > 0)
        json_object_set_new(host, "PortBindings", port_bindings(c));
    add_network_timeout(host, c);
}

static json_t *host_config(const struct plan *plan, const struct container_options *o)
{
    json_t *host = json_pack(
        "{s:b, s:b, s:b, s:[s], s:o, s:s, s:s, s:s, s:o, s:o, s:I, s:o, s:{s:s}, "
        "s:{s:s}, s:b, s:b, s:o}",
        "AutoRemove", 1, "Privileged", 0, "ReadonlyRootfs", 1, "CapDrop", "ALL",
        "SecurityOpt", security(o), "NetworkMode", network_of(plan), "IpcMode",
        "private", "CgroupnsMode", "private", "Mounts", mounts(plan, o), "Tmpfs",
        tmpfs(plan, o), "ShmSize", (json_int_t)plan->limits.tmp_bytes, "Ulimits",
        ulimits(plan), "LogConfig", "Type", "none", "RestartPolicy", "Name", "no",
        "PublishAllPorts", 0, "OomKillDisable", 0, "MaskedPaths", masked_paths());

    if (!host)
        return NULL;
    add_limits(host, plan, o->place);
    add_network(host, plan);
    if (plan->container.runtime)
        json_object_set_new(host, "Runtime", json_string(plan->container.runtime));
    return host;
}

/* Brought later, the guest needs somebody who waits until nobody holds the
 * container's standard input any more. */
static const char *first_program(enum guest_entry place)
{
    static const char *const programs[] = {
        CONTAINER_GUEST, CONTAINER_GUEST_DIR "/" CONTAINER_GUEST_FILE, "cat"
    };

    return programs[place];
}

static json_t *arguments(const struct container_options *o)
{
    if (o->place == ENTRY_EXEC)
        return json_pack("[s]", "-");
    if (o->place == ENTRY_BIND && o->guest_socket_dir)
        return json_pack("[s, s]", "--line", CONTAINER_LINE "/" GUEST_SOCKET_NAME);
    return json_pack("[s]", "--stdio");
}

/* Variables that a container does not set are the image's. The guest is ours: it gets
 * them empty, and its programs get them from us. */
static void hide_env(json_t *container, const struct strv *env)
{
    json_t *list = env && env->count > 0 ? json_array() : NULL;

    for (size_t i = 0; list && i < env->count; i++) {
        const char *entry = env->items[i];
        int len = (int)strcspn(entry, "=");

        (void)json_array_append_new(list, str_starts(entry, "PATH=")
                                              ? json_string("PATH=" PATH_SEARCH)
                                              : json_sprintf("%.*s=", len, entry));
    }
    if (list)
        json_object_set_new(container, "Env", list);
}

json_t *container_json(const struct plan *plan, const struct container_options *o)
{
    json_t *json = json_pack(
        "{s:s, s:s, s:o, s:[s], s:o, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:i, "
        "s:{s:[s]}, s:o, s:o}",
        "Image", plan->image, "Hostname", plan->hostname, "User",
        json_sprintf("%u:%u", o->uid, o->gid), "Entrypoint", first_program(o->place),
        "Cmd", arguments(o), "WorkingDir", "/", "OpenStdin", 1, "StdinOnce", 1,
        "AttachStdin", 1, "AttachStdout", 1, "AttachStderr", 0, "Tty", 0,
        "NetworkDisabled", plan->network == NETWORK_NONE, "StopTimeout", STOP_S,
        "Healthcheck", "Test", "NONE", "Labels", labels(plan, o), "HostConfig",
        host_config(plan, o));

    if (json)
        hide_env(json, o->env);
    if (json && plan->network == NETWORK_BRIDGE && plan->container.port_count > 0)
        json_object_set_new(json, "ExposedPorts", exposed_ports(&plan->container));
    return json;
}

/* As strict as a vessel, but for who runs in it: root without capabilities, to whom
 * a new volume belongs. Only the guest runs, or the image's chmod and touch. */
static json_t *cache_host(const struct plan *plan, const struct plan_cache *c,
                          const struct container_options *o)
{
    json_t *mounts = json_pack("[o]", cache(c));

    if (o->place == ENTRY_BIND)
        (void)json_array_append_new(mounts,
                                    bind(o->guest_path, CONTAINER_GUEST, false));
    else if (o->place == ENTRY_COPY)
        (void)json_array_append_new(mounts, own_volume());
    add_volumes(mounts, plan, o);
    return json_pack(
        "{s:b, s:b, s:[s], s:o, s:s, s:s, s:s, s:o, s:i, s:{s:s}, s:{s:s}}",
        "Privileged", 0, "ReadonlyRootfs", 1, "CapDrop", "ALL", "SecurityOpt",
        security(o), "NetworkMode", "none", "IpcMode", "private", "CgroupnsMode",
        "private", "Mounts", mounts, "PidsLimit", 16, "LogConfig", "Type", "none",
        "RestartPolicy", "Name", "no");
}

json_t *container_cache_json(const struct plan *plan, size_t i,
                             const struct container_options *o)
{
    const struct plan_cache *c = &plan->container.caches[i];
    json_t *command =
        o->place == ENTRY_EXEC
            ? json_pack("[s, s, s, s, s]", "/bin/sh", "-c",
                        "chmod 1777 \"$1\" && : >\"$1/.vial-cache\"", "sh", c->target)
            : json_pack("[s, s, s]", first_program(o->place), "--open", c->target);

    json_t *json = json_pack(
        "{s:s, s:s, s:o, s:b, s:{s:[s]}, s:o, s:o}", "Image", plan->image, "User",
        "0:0", "Entrypoint", command, "NetworkDisabled", 1, "Healthcheck", "Test",
        "NONE", "Labels", labels(plan, o), "HostConfig", cache_host(plan, c, o));

    if (json)
        hide_env(json, o->env);
    return json;
}
