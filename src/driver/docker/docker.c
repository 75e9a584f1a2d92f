/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/docker/docker.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/sys.h"
#include "driver/docker/containers.h"
#include "driver/docker/image.h"
#include "driver/gate_process.h"
#include "driver/native/confinement.h"
#include "driver/native/native.h"
#include "driver/native/seccomp.h"

#define KILL_MS    5000
#define DEATH_MS   2000
#define REMOVE_MS  5000
#define GOODBYE_MS 300

/* Each open removes some of the containers that dead owners left, unless they are so
 * young that they may be about to go by themselves. */
#define SWEEP_SOME  4
#define SWEEP_AGE_S 30

static struct docker *docker_of(struct vessel *vessel)
{
    return (struct docker *)vessel;
}

static int check_plan(const struct plan *plan, struct vial_error *err)
{
    if (plan->rootfs) {
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "driver 'docker' cannot give the program a root of its own");
        return fail_remedy(err, "name an image, or use '--driver native'");
    }
    if (plan->image)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "driver 'docker' needs an image");
    return fail_remedy(err, "name one with '--image', as in '--image debian:12-slim'");
}

static void ask_to_kill(struct docker *d, const char *signal)
{
    char target[160];
    struct api_call call = { .method = "POST",
                             .target = target,
                             .timeout_ms = KILL_MS,
                             .about = "kill the container" };

    (void)snprintf(target, sizeof(target), "/containers/%s/kill?signal=%s",
                   d->vessel.container, signal);
    (void)api_do(&d->api, &call, NULL, NULL);
}

/* Its guest heeds no signal; this is for those who watch the engine's events. */
static void tell_stop(struct vessel *vessel)
{
    struct docker *d = docker_of(vessel);

    if (!d->started || d->killed)
        return;
    d->stopped = true;
    ask_to_kill(d, "SIGTERM");
}

/* Its guest may have said goodbye, and still be on its way out. */
static bool ends_now(const struct docker *d)
{
    struct pollfd dead = { .fd = d->pidfd, .events = POLLIN };

    return d->pidfd >= 0 && poll(&dead, 1, GOODBYE_MS) > 0;
}

static int pause_container(struct vessel *vessel, bool still, bool reclaim,
                           struct vial_error *err)
{
    struct docker *d = docker_of(vessel);
    char target[160];
    struct api_call call = { .method = "POST",
                             .target = target,
                             .about = still ? "pause the container"
                                            : "let the container go on",
                             .object = d->vessel.container };

    (void)reclaim; /* its memory is the engine's business */
    if (still == d->paused)
        return 0;
    (void)snprintf(target, sizeof(target), "/containers/%s/%s", d->vessel.container,
                   still ? "pause" : "unpause");
    if (api_do(&d->api, &call, NULL, err) < 0)
        return -1;
    d->paused = still;
    return 0;
}

/* Its cgroup goes together with it, so the counters are read before. The first
 * process takes all others of its pid namespace along. */
static void kill_container(struct vessel *vessel)
{
    struct docker *d = docker_of(vessel);

    if (!d->started || d->killed)
        return;
    d->killed = true;
    if (d->paused) /* what is frozen may not die */
        (void)pause_container(vessel, false, false, NULL);
    if (!container_usage_read(&d->count, &d->last) &&
        d->count.cgroup.kind == CGROUP_NONE)
        container_usage_ask(&d->api, d->vessel.container, &d->last);
    if (d->stopped && ends_now(d))
        return;
    /* Whoever saw the first signal sees this one, too. */
    if (d->stopped || d->pidfd < 0 || sys_pidfd_kill(d->pidfd, SIGKILL) < 0)
        ask_to_kill(d, "SIGKILL");
}

static void usage_of(struct vessel *vessel, struct vessel_usage *out)
{
    struct docker *d = docker_of(vessel);

    if (d->killed)
        *out = d->last;
    else if (!container_usage_read(&d->count, out))
        container_usage_ask(&d->api, d->vessel.container, out);
}

/* The first process of a pid namespace is gone when all others are. */
static void wait_for_death(const struct docker *d)
{
    struct pollfd dead = { .fd = d->pidfd, .events = POLLIN };

    if (d->killed && d->pidfd >= 0)
        (void)poll(&dead, 1, DEATH_MS);
}

/* One that ran removes itself; this waits until nothing of it is left, neither in the
 * engine's list nor in the way of its image. -1: that cannot be told, because nobody
 * answers. */
static int wait_for_removal(struct docker *d, bool *gone)
{
    auto_json json_t *answer = NULL;
    struct vial_error why = { 0 };
    char target[160];
    struct api_call call = { .method = "POST",
                             .target = target,
                             .timeout_ms = REMOVE_MS,
                             .about = "wait for the container's removal" };

    (void)snprintf(target, sizeof(target), "/containers/%s/wait?condition=removed",
                   d->vessel.container);
    if (api_do(&d->api, &call, &answer, &why) < 0) {
        *gone = containers_is_gone(&why);
        return *gone || fail_is(&why, VIAL_E_ENGINE_API) ? 0 : -1;
    }
    *gone =
        !json_is_string(json_object_get(json_object_get(answer, "Error"), "Message"));
    return 0;
}

static void remove_container(struct docker *d)
{
    bool gone = false;

    if (!d->vessel.container[0] || (d->started && wait_for_removal(d, &gone) < 0))
        return;
    if (!gone)
        (void)containers_remove(&d->api, d->vessel.container, NULL);
}

static void close_vessel(struct vessel *vessel)
{
    struct docker *d = docker_of(vessel);
    struct gate_process gate = { d->gate_pidfd, vessel->gate_fd, -1, NULL };

    kill_container(vessel);
    wait_for_death(d);
    gate_process_end(&gate);
    pump_stop(d->pump);
    guest_socket_close(d->line);
    str_done(&d->early);
    remove_container(d);
    container_usage_done(&d->count);
    auto_fd_(&d->attached_fd);
    auto_fd_(&d->hold_fd);
    auto_fd_(&d->seccomp_fd);
    auto_fd_(&d->pidfd);
    auto_fd_(&d->foreign.fd);
    auto_fd_(&vessel->stream_fd);
    jail_done(&vessel->jail);
    strv_done(&vessel->layers);
    strv_done(&vessel->env);
    free(vessel->cwd);
    strv_done(&vessel->entrypoint);
    strv_done(&vessel->cmd);
    free(d);
}

static int find_engine(struct docker *d, const struct plan *plan,
                       struct vial_error *err)
{
    const struct plan_container *c = &plan->container;

    if (api_find(&d->api, err) < 0)
        return -1;
    if (d->api.remote && plan->mount_count > 0) {
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "an engine on another host cannot show '%s' of this one",
                   plan->mounts[0].source);
        return fail_remedy(err, "send files along with '--in', or use an engine's unix "
                                "socket");
    }
    if (d->api.timeout_ms == 0)
        d->api.timeout_ms = c->open_ms;
    d->api.retries = (unsigned)c->retries;
    d->api.retry_ms = c->retry_ms;
    return 0;
}

static int open_vessel(const struct plan *plan, int guest_fd, struct vessel **out,
                       struct vial_error *err)
{
    struct docker *d = NULL;

    if (check_plan(plan, err) < 0)
        return -1;
    d = calloc(1, sizeof(*d));
    if (!d)
        return fail_memory(err);
    d->vessel = (struct vessel){ .driver = &driver_docker,
                                 .stream_fd = -1,
                                 /* The stream's end tells, and not before the
                                  * last byte has come. */
                                 .death_fd = -1,
                                 .event_fd = -1,
                                 .gate_fd = -1,
                                 .level = "container",
                                 .limits_by = "cgroup",
                                 .path = PATH_SEARCH };
    d->gate_pidfd = d->pidfd = d->hold_fd = d->seccomp_fd = d->attached_fd = -1;
    d->foreign = FOREIGN_NONE;
    container_usage_init(&d->count);
    sys_make_id('v', d->vessel.id);
    if (find_engine(d, plan, err) < 0 || start_container(d, plan, guest_fd, err) < 0) {
        close_vessel(&d->vessel);
        return -1;
    }
    (void)containers_sweep(&d->api, SWEEP_AGE_S, SWEEP_SOME, &d->vessel.swept, NULL);
    *out = &d->vessel;
    return 0;
}

static int sweep(int cancel_fd, unsigned *removed, struct vial_error *err)
{
    struct api api;
    int there;

    *removed = 0;
    if (api_find(&api, err) < 0)
        return -1;
    api.cancel_fd = &cancel_fd;
    there = containers_reach(&api, err);
    return there <= 0 ? there : containers_sweep(&api, 0, UINT_MAX, removed, err);
}

static int pull(const struct vial_pull *pull, json_t **out, struct vial_error *err)
{
    struct api api;

    return api_find(&api, err) < 0 ? -1 : image_pull(&api, pull, out, err);
}

const struct driver driver_docker = {
    .name = "docker",
    .probe = docker_probe,
    .open = open_vessel,
    .stopping = tell_stop,
    .kill = kill_container,
    .pause = pause_container,
    .usage = usage_of,
    .close = close_vessel,
    .sweep = sweep,
    .pull = pull,
    .waits = true,
    .wants_image = true,
};

static void add_layers(struct docker *d)
{
    static const char *const always[] = { "pid",  "mount",  "net",     "ipc",
                                          "uts",  "cgroup", "overlay", "no_new_privs",
                                          "caps", "ro_root" };

    for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++)
        strv_push(&d->vessel.layers, always[i]);
    if (d->vessel.jail.flags & JAIL_SECCOMP)
        strv_push(&d->vessel.layers, "seccomp");
    if (d->vessel.jail.flags & JAIL_LANDLOCK)
        strv_push(&d->vessel.layers, "landlock");
}

static int add_caches(struct jail *jail, const struct plan *plan)
{
    int rc = 0;

    for (size_t i = 0; i < plan->container.cache_count; i++)
        rc |= confine_path(jail, plan->container.caches[i].target,
                           JAIL_READ | JAIL_WRITE | JAIL_EXEC);
    return rc;
}

/* The engine has dropped ids and capabilities already; the guest sees to it that
 * each program is without them, and adds its filters and Landlock. */
int docker_jail(struct docker *d, const struct plan *plan, int guest_fd, unsigned uid,
                struct vial_error *err)
{
    struct jail *jail = &d->vessel.jail;
    struct confine_options o = { .landlock = native_landlock_abi() > 0,
                                 .uid = uid,
                                 .gid = uid };
    const char *profile = plan->seccomp ? plan->seccomp : "default";
    char name[64];

    (void)snprintf(name, sizeof(name), "%s%s%s", profile, d->foreign.arch ? "-" : "",
                   d->foreign.arch ? d->foreign.arch : "");
    if (confine_fill(jail, plan, &o, err) < 0 ||
        seccomp_fill(jail, guest_fd, name, plan, err) < 0)
        return -1;
    if ((jail->flags & JAIL_LANDLOCK) && add_caches(jail, plan) < 0)
        return fail_memory(err);
    jail->flags &= ~(uint32_t)JAIL_SET_IDS;
    jail->uid = jail->gid = uid;
    if (plan->container.nproc && plan->limits.pids > 0) {
        jail->flags |= JAIL_OWN_USERS;
        confine_rlimit(jail, RLIMIT_NPROC, plan->limits.pids);
    }
    add_layers(d);
    return strv_ok(&d->vessel.layers) ? 0 : fail_memory(err);
}

static int missing(const char *name, struct vial_error *err)
{
    (void)fail(err, VIAL_E_ENGINE_NETWORK, "there is no network '%s'", name);
    return fail_remedy(err, "make it with 'docker network create %s'", name);
}

/* By its whole name, as ids and their beginnings are taken too; and of a kind in
 * which containers have an interface of their own behind a bridge. */
static int judge(json_t *network, const char *name, struct vial_error *err)
{
    const char *real = json_string_value(json_object_get(network, "Name"));
    const char *driver = json_string_value(json_object_get(network, "Driver"));

    if (!str_eq(real, name))
        return missing(name, err);
    if (str_eq(driver, "bridge") || str_eq(driver, "overlay"))
        return 0;
    (void)fail(err, VIAL_E_ENGINE_NETWORK,
               "network '%s' is of kind '%.40s', which leads to the host or its "
               "neighbours",
               name, driver ? driver : "");
    return fail_remedy(err, "join one of kind bridge or overlay");
}

int docker_check_network(const struct api *api, const struct plan *plan,
                         struct vial_error *err)
{
    const char *name = plan->container.network_name;
    auto_str struct str target = { 0 };
    auto_json json_t *network = NULL;
    struct api_call call = { .method = "GET",
                             .about = "look at the network",
                             .object = name };

    if (plan->network == NETWORK_NONE || !name)
        return 0;
    str_puts(&target, "/networks/");
    http_escape(&target, name);
    if (!str_ok(&target))
        return fail_memory(err);
    call.target = target.data;
    if (api_do(api, &call, &network, err) == 0)
        return judge(network, name, err);
    if (err && fail_is(err, VIAL_E_ENGINE_NETWORK))
        return missing(name, err);
    return -1;
}
