/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "keeper/client/ask.h"
#include "keeper/client/images.h"
#include "keeper/client/zygote_client.h"
#include "keeper/talk/codec.h"
#include "keeper/talk/report.h"
#include "keeper/talk/talk.h"

#define OPEN_MS  60000 /* a driver has given up by then */
#define USAGE_MS 5000
#define CLOSE_MS 5000
#define SWEEP_MS 120000 /* for an engine that is slow, and has much to remove */

int kept_ping(int fd, struct kept_health *out, struct vial_error *err)
{
    auto_heard struct heard heard = { 0 };
    struct unpack *u = &heard.u;

    if (ask_once(fd, TALK_PING, &heard, "ask the keeper", err) < 0)
        return -1;
    out->pid = (pid_t)unpack_u32(u);
    out->vessels = unpack_u32(u);
    out->restarts = unpack_u32(u);
    return unpack_finished(u) ? 0 : ask_gone(err, "ask the keeper");
}

static int probe_at(int fd, struct caps *out, struct vial_error *err)
{
    auto_heard struct heard heard = { 0 };

    if (ask_once(fd, TALK_PROBE, &heard, "probe the host", err) < 0)
        return -1;
    if (caps_unpack(&heard.u, out) == 0)
        return 0;
    return fail(err, VIAL_E_KEEPER,
                "probe the host: the keeper's answer makes no sense");
}

/* Moves what came into K. */
static int adopt(struct kept *k, struct unpack *u, struct talk_fds *fds,
                 struct vial_error *err)
{
    struct vessel_report r;
    size_t next = 1;

    if (vessel_unpack(u, &r) < 0)
        return fail(err, VIAL_E_KEEPER,
                    "open the vessel: the keeper's answer makes no "
                    "sense");
    memcpy(k->vessel.id, r.id, sizeof(r.id));
    memcpy(k->vessel.container, r.container, sizeof(r.container));
    memcpy(k->vessel.name, r.name, sizeof(r.name));
    memcpy(k->level, r.level, sizeof(k->level));
    memcpy(k->limits_by, r.limits_by, sizeof(k->limits_by));
    k->vessel.level = k->level;
    k->vessel.limits_by = k->limits_by;
    k->path = ptr_take(&r.path);
    k->vessel.path = k->path ? k->path : PATH_SEARCH;
    k->vessel.tmpdir = ptr_take(&r.tmpdir);
    k->vessel.jail.workdir = ptr_take(&r.workdir);
    k->vessel.layers = r.layers;
    r.layers = (struct strv){ 0 };
    k->vessel.env = r.env;
    r.env = (struct strv){ 0 };
    k->vessel.imports = r.imports;
    r.imports = (struct strv){ 0 };
    k->vessel.pool = r.pool;
    k->vessel.entrypoint = r.entrypoint;
    r.entrypoint = (struct strv){ 0 };
    k->vessel.cmd = r.cmd;
    r.cmd = (struct strv){ 0 };
    k->vessel.cwd = ptr_take(&r.cwd);
    memcpy(k->vessel.digest, r.digest, sizeof(r.digest));
    k->vessel.owners = r.digest[0] ? r.owners : NULL;
    k->vessel.jailed = true;
    if (fds->count != 1u + r.has_death + r.has_event + r.has_gate)
        return fail(err, VIAL_E_KEEPER, "open the vessel: descriptors are missing");
    k->vessel.stream_fd = fd_take(&fds->fd[0]);
    if (r.has_death)
        k->vessel.death_fd = fd_take(&fds->fd[next++]);
    if (r.has_event)
        k->vessel.event_fd = fd_take(&fds->fd[next++]);
    if (r.has_gate)
        k->vessel.gate_fd = fd_take(&fds->fd[next]);
    return 0;
}

static void release(struct kept *k)
{
    auto_fd_(&k->leash_fd);
    auto_fd_(&k->vessel.stream_fd);
    auto_fd_(&k->vessel.death_fd);
    auto_fd_(&k->vessel.event_fd);
    auto_fd_(&k->vessel.gate_fd);
    cgroup_close(&k->counters);
    jail_done(&k->vessel.jail);
    strv_done(&k->vessel.layers);
    strv_done(&k->vessel.env);
    strv_done(&k->vessel.imports);
    strv_done(&k->vessel.entrypoint);
    strv_done(&k->vessel.cmd);
    free(k->vessel.tmpdir);
    free(k->vessel.cwd);
    free(k->path);
    free(k);
}

static int begin(struct kept *k, int fd, const struct plan *plan,
                 struct vial_error *err)
{
    auto_heard struct heard heard = { 0 };
    struct pack p = { 0 };

    pack_u32(&p, TALK_OPEN);
    plan_pack(&p, plan);
    k->leash_fd = ask_send(fd, &p, "open the vessel", err);
    pack_done(&p);
    if (k->leash_fd < 0 ||
        ask_hear(k->leash_fd, OPEN_MS, &heard, "open the vessel", err) < 0)
        return -1;
    return adopt(k, &heard.u, &heard.fds, err);
}

static int open_at(int fd, const struct driver *driver, const struct plan *plan,
                   struct vessel **out, struct vial_error *err)
{
    struct kept *k = calloc(1, sizeof(*k));

    if (!k)
        return fail_memory(err);
    k->leash_fd = -1;
    cgroup_forget(&k->counters);
    k->vessel = (struct vessel){
        .driver = driver, .stream_fd = -1, .death_fd = -1, .event_fd = -1, .gate_fd = -1
    };
    if (begin(k, fd, plan, err) < 0) {
        release(k);
        return -1;
    }
    *out = &k->vessel;
    return 0;
}

static int tell(const struct kept *k, enum talk_verb verb)
{
    struct pack p = { 0 };
    int rc;

    pack_u32(&p, verb);
    rc = talk_send(k->leash_fd, &p, NULL, 0);
    pack_done(&p);
    return rc;
}

static int limit_vessel(struct vessel *vessel, const struct limits *limits,
                        struct vial_error *err)
{
    const struct kept *k = kept_of(vessel);
    auto_heard struct heard heard = { 0 };
    struct pack p = { 0 };
    int rc;

    pack_u32(&p, TALK_LIMIT);
    limits_pack(&p, limits);
    rc = talk_send(k->leash_fd, &p, NULL, 0);
    pack_done(&p);
    if (rc < 0)
        return ask_gone(err, "lower the limits");
    return ask_hear(k->leash_fd, USAGE_MS, &heard, "lower the limits", err);
}

static int pause_vessel(struct vessel *vessel, bool still, bool reclaim,
                        struct vial_error *err)
{
    static const char what[] = "pause the vessel";
    struct kept *k = kept_of(vessel);
    auto_heard struct heard heard = { 0 };
    struct pack p = { 0 };
    int rc;

    pack_u32(&p, TALK_PAUSE);
    pack_u32(&p, still);
    pack_u32(&p, reclaim);
    rc = talk_send(k->leash_fd, &p, NULL, 0);
    pack_done(&p);
    if (rc < 0)
        return ask_gone(err, what);
    return ask_hear(k->leash_fd, USAGE_MS, &heard, what, err);
}

static int snapshot_vessel(struct vessel *vessel, const struct snapshot_order *order,
                           struct vial_error *err)
{
    static const char what[] = "save the vessel's files";
    const struct kept *k = kept_of(vessel);
    auto_heard struct heard heard = { 0 };
    struct pack p = { 0 };
    int rc;

    if (order->config)
        return fail(err, VIAL_E_UNSUPPORTED, "the daemon changes no image's config");
    pack_u32(&p, TALK_SNAPSHOT);
    pack_text(&p, order->name);
    rc = talk_send(k->leash_fd, &p, &order->report_fd, 1);
    pack_done(&p);
    if (rc < 0)
        return ask_gone(err, what);
    return ask_hear(k->leash_fd, USAGE_MS, &heard, what, err);
}

int kept_image_forget(const char *name, struct vial_error *err)
{
    static const char what[] = "remove a snapshot";
    auto_heard struct heard heard = { 0 };
    auto_fd int pair = -1;
    struct pack p = { 0 };

    pack_u32(&p, TALK_FORGET);
    pack_text(&p, name);
    pair = ask_send(KEPT_FD_native, &p, what, err);
    pack_done(&p);
    return pair < 0 ? -1 : ask_hear(pair, SWEEP_MS, &heard, what, err);
}

int kept_images_saved(const char *owner, struct strv *out, struct vial_error *err)
{
    static const char what[] = "list snapshots";
    auto_heard struct heard heard = { 0 };
    auto_fd int pair = -1;
    struct pack p = { 0 };

    pack_u32(&p, TALK_SAVED);
    pack_text(&p, owner);
    pair = ask_send(KEPT_FD_native, &p, what, err);
    pack_done(&p);
    if (pair < 0 || ask_hear(pair, SWEEP_MS, &heard, what, err) < 0)
        return -1;
    list_unpack(&heard.u, TALK_SAVED_MAX, SIZE_MAX, out);
    return unpack_finished(&heard.u) ? 0 : ask_gone(err, what);
}

static void tell_stop(struct vessel *vessel)
{
    (void)tell(kept_of(vessel), TALK_STOP);
}

static void kill_vessel(struct vessel *vessel)
{
    /* One that cannot be told is dead, and its vessel with it. */
    (void)tell(kept_of(vessel), TALK_KILL);
}

/* Asks the warden, who sees more than what was lent. */
static void usage_now(struct vessel *vessel, struct vessel_usage *out)
{
    const struct kept *k = kept_of(vessel);
    auto_heard struct heard heard = { 0 };

    *out = (struct vessel_usage){ 0 };
    if (tell(k, TALK_USAGE) < 0 ||
        ask_hear(k->leash_fd, USAGE_MS, &heard, "count", NULL) < 0)
        return;
    if (usage_unpack(&heard.u, out) < 0)
        *out = (struct vessel_usage){ 0 };
}

static void usage_of(struct vessel *vessel, struct vessel_usage *out)
{
    const struct kept *k = kept_of(vessel);

    *out = (struct vessel_usage){ 0 };
    if (k->counters.kind != CGROUP_NONE) {
        cgroup_read(&k->counters, out);
        out->net_counted = true; /* there is nothing but its own loopback */
    }
    if (!out->counted) /* there are too many processors for what was lent */
        usage_now(vessel, out);
}

/* Of a vessel that waits: what it needs to be counted without asking comes along. */
static void spent_by(struct vessel *vessel, struct vessel_usage *out)
{
    struct kept *k = kept_of(vessel);
    auto_heard struct heard heard = { 0 };
    uint32_t which = 0;

    *out = (struct vessel_usage){ 0 };
    if (tell(k, TALK_COUNTERS) < 0 ||
        ask_hear(k->leash_fd, USAGE_MS, &heard, "count", NULL) < 0)
        return;
    which = unpack_u32(&heard.u);
    if (usage_unpack(&heard.u, out) < 0)
        *out = (struct vessel_usage){ 0 };
    else
        (void)cgroup_borrow(&k->counters, heard.fds.fd, heard.fds.count, which);
}

/* Until the keeper has removed everything, or is gone itself. */
static void close_vessel(struct vessel *vessel)
{
    struct kept *k = kept_of(vessel);

    if (tell(k, TALK_CLOSE) == 0)
        (void)ask_wait(k->leash_fd, 0, CLOSE_MS);
    release(k);
}

/* The warden does the same when nobody waits for it. */
static void leave_vessel(struct vessel *vessel)
{
    release(kept_of(vessel));
}

/* What a sweep was let go of goes on in the keeper until it notices. */
static int sweep_at(int fd, int cancel_fd, unsigned *removed, struct vial_error *err)
{
    static const char what[] = "remove what was left";
    auto_heard struct heard heard = { 0 };
    struct pack p = { 0 };
    auto_fd int pair = -1;

    *removed = 0;
    pack_u32(&p, TALK_SWEEP);
    pair = ask_send(fd, &p, what, err);
    pack_done(&p);
    if (pair < 0)
        return -1;
    struct pollfd ready[] = { { .fd = pair, .events = POLLIN },
                              { .fd = cancel_fd, .events = POLLIN } };
    while (poll(ready, 2, SWEEP_MS) < 0 && errno == EINTR)
        ;
    if (ready[1].revents)
        return fail(err, VIAL_E_CANCELLED, "%s: given up", what);
    if (ask_hear(pair, 0, &heard, what, err) < 0)
        return -1;
    *removed = unpack_u32(&heard.u);
    return unpack_finished(&heard.u) ? 0 : ask_gone(err, what);
}

/* What asks NAME's own keeper, which has a guest's program of its own. */
#define KEEPER(name, ...)                                                              \
    static int sweep_##name(int cancel_fd, unsigned *removed, struct vial_error *err)  \
    {                                                                                  \
        return sweep_at(KEPT_FD_##name, cancel_fd, removed, err);                      \
    }                                                                                  \
    static int probe_##name(struct caps *out, struct vial_error *err)                  \
    {                                                                                  \
        return probe_at(KEPT_FD_##name, out, err);                                     \
    }                                                                                  \
    static int open_##name(const struct plan *plan, int guest_fd, struct vessel **out, \
                           struct vial_error *err)                                     \
    {                                                                                  \
        (void)guest_fd;                                                                \
        return open_at(KEPT_FD_##name, &driver_kept_##name, plan, out, err);           \
    }                                                                                  \
    static int describe_##name(const struct plan *plan, const char *share_dir,         \
                               json_t *into, struct vial_error *err)                   \
    {                                                                                  \
        return driver_##name.describe                                                  \
                   ? driver_##name.describe(plan, share_dir, into, err)                \
                   : 0;                                                                \
    }
#include "model/drivers.def"

const struct driver driver_kept_native = {
    .name = "native",
    .probe = probe_native,
    .open = open_native,
    .kill = kill_vessel,
    .pause = pause_vessel,
    .snapshot = snapshot_vessel,
    .usage = usage_of,
    .usage_now = usage_now,
    .spent = spent_by,
    .close = close_vessel,
    .leave = leave_vessel,
    .sweep = sweep_native,
    .limit = limit_vessel,
    .zygote_open = zygote_client_open,
    .fork_into = zygote_client_fork_into,
    .zygote_close = zygote_client_close,
    .waits = true,
    .describe = describe_native,
    .takes_image = true,
    .needs_programs_here = true,
};

const struct driver driver_kept_docker = {
    .name = "docker",
    .probe = probe_docker,
    .open = open_docker,
    .stopping = tell_stop,
    .kill = kill_vessel,
    .pause = pause_vessel,
    .usage = usage_of,
    .usage_now = usage_now,
    .close = close_vessel,
    .leave = leave_vessel,
    .sweep = sweep_docker,
    .pull = kept_image_pull,
    .waits = true,
    .describe = describe_docker,
    .wants_image = true,
};

const struct driver *const kept_drivers[] = {
#define KEEPER(name, ...) &driver_kept_##name,
#include "model/drivers.def"
    NULL
};
