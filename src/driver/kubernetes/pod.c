/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/kubernetes/pod.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"

#define USER_FIRST 20000u
#define USER_COUNT 40000u
/* What the node's log of the container takes, between two looks of who turns it over:
 * all that the guest says passes through it. */
#define LOG_BYTES  (INT64_C(1) << 30)
#define GUEST_ROOM 65536 /* beside the guest, in its directory */
#define MARGIN_S   60    /* of the pod's own deadline, beyond all of ours */
#define PATIENCE_S "120" /* for whoever brings the guest, once its container runs */
#define STOP_S     1     /* the guest heeds no signal: its stream's end ends it */
#define NAME_MAX_  63

unsigned pod_user(const char *vessel_id)
{
    const char *number = str_starts(vessel_id, "v-") ? vessel_id + 2 : vessel_id;

    return USER_FIRST + (unsigned)(strtoull(number, NULL, 16) % USER_COUNT);
}

void pod_name(struct str *out, const struct plan *plan, const char *vessel_id)
{
    const char *prefix = plan->container.prefix ? plan->container.prefix : "vial";
    char name[NAME_MAX_ + 1];

    (void)snprintf(name, sizeof(name), "%.40s-%s", prefix,
                   str_starts(vessel_id, "v-") ? vessel_id + 2 : vessel_id);
    for (char *at = name; *at; at++)
        if (*at == '_' || *at == '.')
            *at = '-';
    str_puts(out, name);
}

static void add_pairs(json_t *object, const struct strv *pairs)
{
    for (size_t i = 0; object && i < pairs->count; i++) {
        const char *pair = pairs->items[i];
        size_t len = pod_pair_key(pair);

        if (len > 0)
            (void)json_object_setn_new(object, pair, len, json_string(pair + len + 1));
    }
}

/* What the settings say, and above it what vial does. Takes OWN. */
static json_t *with_pairs(const struct strv *pairs, json_t *own)
{
    json_t *all = own ? json_object() : NULL;

    add_pairs(all, pairs);
    if (all)
        (void)json_object_update(all, own);
    json_decref(own);
    return all;
}

static json_t *labels(const struct plan *plan, const struct pod_options *o)
{
    json_t *own = json_pack("{s:s, s:s, s:s, s:s}", "app.kubernetes.io/managed-by",
                            "vial", POD_MANAGED, "true", POD_VESSEL, o->vessel_id,
                            POD_NETWORK, plan_network_name(plan->network));

    return with_pairs(&plan->pod.labels, own);
}

static json_t *annotations(const struct plan *plan, const struct pod_options *o)
{
    json_t *own = json_pack("{s:s, s:s, s:s, s:s*, s:s*}", POD_OWNER, o->owner,
                            POD_HOST, o->host, POD_RUN, plan->id, POD_SESSION,
                            plan->label_session, POD_TASK, plan->label_task);

    return with_pairs(&plan->pod.annotations, own);
}

/* The cluster removes a pod when the one that made it is there no more. */
static json_t *makers(const struct pod_options *o)
{
    if (!o->maker)
        return NULL;
    return json_pack("[{s:s, s:s, s:s, s:s, s:b, s:b}]", "apiVersion", "v1", "kind",
                     "Pod", "name", o->maker, "uid", o->maker_uid, "controller", 0,
                     "blockOwnerDeletion", 0);
}

static json_t *metadata(const struct plan *plan, const struct pod_options *o)
{
    auto_str struct str name = { 0 };

    pod_name(&name, plan, o->vessel_id);
    if (!str_ok(&name))
        return NULL;
    return json_pack("{s:s, s:o, s:o, s:o*}", "name", name.data, "labels",
                     labels(plan, o), "annotations", annotations(plan, o),
                     "ownerReferences", makers(o));
}

/* In memory, and counted with it: what a pod writes to a node's disk is looked at only
 * now and then. */
static json_t *volume(const char *name, int64_t bytes)
{
    return json_pack("{s:s, s:{s:s, s:o}}", "name", name, "emptyDir", "medium",
                     "Memory", "sizeLimit", json_sprintf("%lld", (long long)bytes));
}

static json_t *volumes(const struct plan *plan, const struct pod_options *o)
{
    const struct limits *l = &plan->limits;

    return json_pack("[o, o, o, o]",
                     volume("guest", (int64_t)o->guest_bytes + GUEST_ROOM),
                     volume("work", l->disk_bytes), volume("tmp", l->tmp_bytes),
                     volume("shm", l->tmp_bytes));
}

static json_t *mounts(const struct plan *plan)
{
    return json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "name",
                     "guest", "mountPath", POD_GUEST_DIR, "name", "work", "mountPath",
                     plan_scratch(plan), "name", "tmp", "mountPath", "/tmp", "name",
                     "shm", "mountPath", "/dev/shm");
}

/* What is asked for is what is allowed: the cluster finds a place for all of it, and
 * takes none of it for others. */
static json_t *amounts(const struct limits *l)
{
    json_t *list = json_pack("{s:o}", "ephemeral-storage",
                             json_sprintf("%lld", (long long)LOG_BYTES));

    if (list && l->memory_bytes > 0)
        json_object_set_new(list, "memory",
                            json_sprintf("%lld", (long long)l->memory_bytes));
    if (list && l->milli_cpus > 0)
        json_object_set_new(list, "cpu",
                            json_sprintf("%lldm", (long long)l->milli_cpus));
    return list;
}

static json_t *resources(const struct plan *plan)
{
    return json_pack("{s:o, s:o}", "limits", amounts(&plan->limits), "requests",
                     amounts(&plan->limits));
}

/* The first line is the guest's (--abi), or the shell's about what went wrong. Once the
 * guest runs, its file is gone. Its standard error stays open all the time: the end of
 * one stream is taken for the end of all. A pod to whom nobody comes ends by itself,
 * where the image has `timeout`, as it is today: 127 means that nothing was read. */
static json_t *command(const struct pod_options *o)
{
    return json_pack(
        "[s, s, s, s, o, s]", "/bin/sh", "-c",
        "{ umask 077 && { timeout \"$2\" head -c \"$1\" 2>/dev/null || "
        "{ [ $? -eq 127 ] && head -c \"$1\"; }; } >\"$0\" && chmod 500 \"$0\" && "
        "\"$0\" --abi; } 2>&1 && exec \"$0\" --attached --forget",
        POD_GUEST, json_sprintf("%zu", o->guest_bytes), PATIENCE_S);
}

static const char *pull_policy(const struct plan *plan)
{
    static const char *const names[] = { "IfNotPresent", "Always", "Never" };

    return names[plan->container.pull];
}

static json_t *container_security(void)
{
    return json_pack("{s:b, s:b, s:b, s:{s:[s]}}", "allowPrivilegeEscalation", 0,
                     "privileged", 0, "readOnlyRootFilesystem", 1, "capabilities",
                     "drop", "ALL");
}

static json_t *container(const struct plan *plan, const struct pod_options *o)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:b, s:b, s:b, s:o, s:o, s:o}", "name",
                     POD_CONTAINER, "image", plan->image, "imagePullPolicy",
                     pull_policy(plan), "command", command(o), "workingDir", "/",
                     "stdin", 1, "stdinOnce", 1, "tty", 0, "resources", resources(plan),
                     "securityContext", container_security(), "volumeMounts",
                     mounts(plan));
}

static json_t *pod_security(const struct pod_options *o)
{
    return json_pack("{s:b, s:i, s:i, s:i, s:{s:s}}", "runAsNonRoot", 1, "runAsUser",
                     (int)o->uid, "runAsGroup", (int)o->uid, "fsGroup", (int)o->uid,
                     "seccompProfile", "type", "RuntimeDefault");
}

/* All that a run may take, or a session, should nobody be left who ends it. It can only
 * be shortened later on. */
int64_t pod_deadline_s(const struct plan *plan, const struct pod_options *o)
{
    return (plan_most_ms(plan) + plan->stay_ms) / 1000 + o->room_seconds + MARGIN_S;
}

/* Names are looked up only where there is a network to reach them by. */
static void add_names(json_t *spec, const struct plan *plan)
{
    const struct strv *dns = &plan->container.dns;
    json_t *servers = NULL;

    if (plan->network == NETWORK_BRIDGE && dns->count == 0)
        return;
    servers = json_array();
    for (size_t i = 0; plan->network == NETWORK_BRIDGE && i < dns->count; i++)
        (void)json_array_append_new(servers, json_string(dns->items[i]));
    if (plan->network != NETWORK_BRIDGE)
        (void)json_array_append_new(servers, json_string("127.0.0.1"));
    json_object_set_new(spec, "dnsPolicy", json_string("None"));
    json_object_set_new(spec, "dnsConfig", json_pack("{s:o}", "nameservers", servers));
}

static json_t *node_selector(const struct plan *plan, const struct pod_options *o)
{
    return with_pairs(&plan->pod.node_selector,
                      json_pack("{s:s, s:s}", "kubernetes.io/os", "linux",
                                "kubernetes.io/arch", o->arch));
}

static json_t *toleration(const char *text)
{
    struct pod_toleration t;

    if (!pod_toleration_read(text, &t))
        return NULL;
    return json_pack("{s:s, s:s, s:s*, s:s*}", "key", t.key, "operator",
                     t.equal ? "Equal" : "Exists", "value", t.equal ? t.value : NULL,
                     "effect", t.effect);
}

/* Where it may be, what its image comes by, and how important it is. */
static void add_settings(json_t *spec, const struct pod_settings *s)
{
    json_t *tolerations = json_array();
    json_t *secrets = json_array();

    for (size_t i = 0; i < s->tolerations.count; i++)
        (void)json_array_append_new(tolerations, toleration(s->tolerations.items[i]));
    for (size_t i = 0; i < s->pull_secrets.count; i++)
        (void)json_array_append_new(
            secrets, json_pack("{s:s}", "name", s->pull_secrets.items[i]));
    if (s->tolerations.count > 0)
        (void)json_object_set(spec, "tolerations", tolerations);
    if (s->pull_secrets.count > 0)
        (void)json_object_set(spec, "imagePullSecrets", secrets);
    if (s->priority_class)
        (void)json_object_set_new(spec, "priorityClassName",
                                  json_string(s->priority_class));
    json_decref(tolerations);
    json_decref(secrets);
}

static json_t *spec(const struct plan *plan, const struct pod_options *o)
{
    json_t *spec = json_pack(
        "{s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:i, s:I, s:s, s:o, s:o, s:[o], s:o}",
        "restartPolicy", "Never", "automountServiceAccountToken", 0,
        "enableServiceLinks", 0, "hostNetwork", 0, "hostPID", 0, "hostIPC", 0,
        "shareProcessNamespace", 0, "terminationGracePeriodSeconds", STOP_S,
        "activeDeadlineSeconds", (json_int_t)pod_deadline_s(plan, o), "hostname",
        plan->hostname, "nodeSelector", node_selector(plan, o), "securityContext",
        pod_security(o), "containers", container(plan, o), "volumes", volumes(plan, o));

    if (!spec)
        return NULL;
    add_names(spec, plan);
    add_settings(spec, &plan->pod);
    if (plan->container.runtime)
        json_object_set_new(spec, "runtimeClassName",
                            json_string(plan->container.runtime));
    return spec;
}

json_t *pod_json(const struct plan *plan, const struct pod_options *o)
{
    return json_pack("{s:s, s:s, s:o, s:o}", "apiVersion", "v1", "kind", "Pod",
                     "metadata", metadata(plan, o), "spec", spec(plan, o));
}

/* What it is, and what to do instead; NULL: it wants nothing of the kind. */
static const char *unsupported(const struct plan *plan, const char **remedy)
{
    const struct plan_container *c = &plan->container;
    const struct {
        bool wanted;
        const char *what, *remedy;
    } rows[] = {
        { plan->rootfs, "a root of its own",
          "name an image, or use '--driver native'" },
        { plan->mount_count > 0, "directories of this host, nor a workspace",
          "send files along with '--in', or use '--driver native'" },
        { plan->network == NETWORK_GATE, "a gate",
          "use '--driver native' or 'docker'; or '--network bridge' with a NetworkPolicy "
          "of the cluster" },
        { plan->limits.cpu_ms > 0, "a limit on cpu time",
          "bound the run by '--timeout' and '--cpus'" },
        { strv_has(&plan->end_on, "pids"), "an end at the limit of processes",
          "leave out 'end_on: pids': programs are refused more processes" },
        { plan->seccomp_file, "a seccomp profile of a file",
          "use '--driver native' or 'docker'" },
        { plan->seccomp && !str_eq(plan->seccomp, "default") &&
              plan->network != NETWORK_BRIDGE,
          "another seccomp profile without a network",
          "leave out '--seccomp': the profile is what keeps programs off the pod's "
          "network" },
        { plan->entrypoint, "the image's entrypoint", "give the command itself" },
        { plan->root.writable || plan->root.as_root || plan->root.sudo,
          "a root that it may write to", "use '--driver native'" },
        { c->network_name, "a named network", "leave out 'network_name'" },
        { c->port_count > 0, "published ports", "leave out 'ports'" },
        { c->cache_count > 0, "cache volumes", "leave out 'caches'" },
        { c->uid > 0, "another user",
          "leave out 'user': each pod has one of its own, by which processes are "
          "counted" },
        { c->nproc, "a ulimit of processes in a user namespace", "leave out 'nproc'" },
        { c->network_ms > 0, "a time-out of its network",
          "leave out 'network_timeout'" },
        { c->most > 0 || c->most_all > 0, "a number of containers",
          "bound pods by a ResourceQuota of the namespace" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        *remedy = rows[i].remedy;
        if (rows[i].wanted)
            return rows[i].what;
    }
    return NULL;
}

int pod_check(const struct plan *plan, struct vial_error *err)
{
    const char *remedy = NULL;
    const char *what = unsupported(plan, &remedy);

    if (what) {
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "driver 'kubernetes' cannot give the program %s", what);
        return fail_remedy(err, "%s", remedy);
    }
    if (plan->image)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "driver 'kubernetes' needs an image");
    return fail_remedy(err, "name one with '--image', as in '--image debian:12-slim'");
}
