/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A sandbox of an E2B service, on other hosts, with the guest as one of its programs.
 *
 *   create -> bring (the guest, as a file) -> start (it, with its stream) -> … -> end
 *
 * The service isolates sandboxes from each other and from its hosts; that is its word,
 * which nothing here can prove. What the guest does to each program (filters, rights,
 * rlimits) is ours. The sandbox has a short lease, which a thread renews: when this
 * process dies, the lease ends, and with it the sandbox.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/owner.h"
#include "base/path.h"
#include "base/sys.h"
#include "base/unit.h"
#include "driver/docker/containers.h"
#include "driver/driver.h"
#include "driver/e2b/ask_service.h"
#include "driver/e2b/tunnel.h"
#include "driver/native/confinement.h"
#include "driver/native/seccomp.h"

#define LEASE_S    120
#define CREATE_MS  60000
#define BRING_MS   60000
#define HELLO_MS   60000
#define GUEST_MAX  ((size_t)16 << 20)
#define GUEST_NAME ".vial-init"
#define PLACE      "/.vial" /* below the home: where programs work */

/* Runs in the sandbox: $1 is the guest's file, $2 where programs work. */
static const char script[] = "umask 077 && chmod 500 \"$1\" && mkdir -p \"$2/work\" "
                             "\"$2/tmp\" && cd / && exec \"$1\" --stdio --forget";

struct e2b {
    struct vessel vessel;
    struct e2b_endpoint endpoint;
    struct e2b_server box_server;
    struct e2b_box box; /* id "": there is none */
    char home[E2B_PATH];
    struct tunnel *tunnel;
    bool ended; /* by us: the service was told so, once */
};

static struct e2b *e2b_of(struct vessel *vessel)
{
    return (struct e2b *)vessel;
}

static int probe(struct caps *out, struct vial_error *err)
{
    static const char *const guests[] = { "seccomp", "no_new_privs", "caps" };
    struct e2b_endpoint endpoint;
    const struct e2b_way way = { &endpoint.api, 0, -1, 0 };
    auto_e2b_call struct e2b_call call = { 0 };
    auto_json json_t *answer = NULL;

    (void)err;
    *out = (struct caps){ .level = "remote", .limits_by = "rlimit" };
    if (e2b_endpoint_find(&endpoint, &out->why_not) < 0)
        return 0;
    e2b_call_list(&call, &endpoint);
    if (e2b_do(&call, &way, &answer, &out->why_not) < 0)
        return 0;
    out->usable = true;
    for (size_t i = 0; i < sizeof(guests) / sizeof(*guests); i++)
        out->layers[out->layer_count++] =
            (struct layer){ .name = guests[i], .available = true };
    return 0;
}

/* What cannot be kept is refused, not left out. */
static int check_plan(const struct plan *plan, struct vial_error *err)
{
    const char *what = NULL;

    if (plan->image)
        what = "an image: E2B_TEMPLATE names its template";
    else if (plan->rootfs)
        what = "a root of its own";
    else if (plan->mount_count > 0)
        what = "a directory of this host; send files along with '--in'";
    else if (plan->network == NETWORK_GATE)
        what = "a gate";
    else if (plan->network != NETWORK_BRIDGE && plan->seccomp &&
             !str_eq(plan->seccomp, "default"))
        what = "another seccomp profile without a network: the profile is what keeps "
               "programs off the sandbox's";
    if (!what)
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED, "driver 'e2b' cannot give the program %s",
               what);
    return fail_remedy(err, "leave that out, or use '--driver native'");
}

/* Tests have it end while they wait. */
static int64_t lease_s(void)
{
    const char *text = getenv("VIAL_TEST_LEASE"); /* NOLINT(concurrency-mt-unsafe) */
    int64_t seconds = 0;

    return text && unit_parse_count(text, &seconds) == 0 && seconds > 0 ? seconds
                                                                        : LEASE_S;
}

static int create(struct e2b *d, const struct plan *plan, struct vial_error *err)
{
    const struct e2b_way way = { &d->endpoint.api, CREATE_MS, -1, 0 };
    auto_e2b_call struct e2b_call call = { 0 };
    auto_json json_t *answer = NULL;
    char owner[128];
    char host[CONTAINERS_HOST];
    const struct e2b_wish wish = { .vessel = d->vessel.id,
                                   .owner = owner,
                                   .host = host,
                                   .session = plan->label_session,
                                   .task = plan->label_task,
                                   .internet = plan->network == NETWORK_BRIDGE,
                                   .lease_s = lease_s() };

    if (owner_name(d->vessel.id, owner, sizeof(owner)) < 0)
        return fail(err, VIAL_E_SYSTEM, "find our own start time");
    containers_host(host); /* "": nobody else can tell who is dead */
    e2b_call_create(&call, &d->endpoint, &wish);
    if (e2b_do(&call, &way, &answer, err) < 0 || e2b_read_box(answer, &d->box, err) < 0)
        return -1;
    (void)snprintf(d->vessel.name, sizeof(d->vessel.name), "%s", d->box.id);
    return e2b_endpoint_box(&d->endpoint, d->box.id, d->box.domain, &d->box_server,
                            err);
}

/* A service without a network goes on without a word at first. */
static int check_internet(const struct e2b *d, const struct plan *plan,
                          struct vial_error *err)
{
    const struct e2b_way way = { &d->endpoint.api, CREATE_MS, -1, 0 };
    auto_e2b_call struct e2b_call call = { 0 };
    auto_json json_t *answer = NULL;

    if (plan->network != NETWORK_BRIDGE)
        return 0;
    e2b_call_look(&call, &d->endpoint, d->box.id);
    if (e2b_do(&call, &way, &answer, err) < 0)
        return -1;
    if (!json_is_false(json_object_get(answer, "allowInternetAccess")))
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED, "the service gives its sandboxes no network");
    return fail_remedy(err, "use '--network none', or another service");
}

static int read_guest(int guest_fd, struct blob *out, struct vial_error *err)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", guest_fd);
    return io_read_file(path, GUEST_MAX, out, err);
}

static int bring(struct e2b *d, int guest_fd, struct vial_error *err)
{
    const struct e2b_way way = { &d->box_server, BRING_MS, -1, 0 };
    auto_e2b_call struct e2b_call call = { 0 };
    auto_blob struct blob guest = { 0 };
    auto_json json_t *answer = NULL;

    if (read_guest(guest_fd, &guest, err) < 0)
        return -1;
    e2b_call_upload(&call, &d->box, GUEST_NAME, &guest);
    return e2b_do(&call, &way, &answer, err) < 0
               ? -1
               : e2b_read_home(answer, GUEST_NAME, d->home, err);
}

static int start(struct e2b *d, struct vial_error *err)
{
    char guest[E2B_PATH + sizeof(GUEST_NAME)];
    char place[E2B_PATH + sizeof(PLACE)];
    const char *const argv[] = { "/bin/sh", "-c", script, "vial", guest, place, NULL };
    const struct tunnel_options o = { .endpoint = &d->endpoint,
                                      .box_server = &d->box_server,
                                      .box = &d->box,
                                      .argv = argv,
                                      .lease_s = lease_s(),
                                      .wait_ms = HELLO_MS };

    (void)snprintf(guest, sizeof(guest), "%s/" GUEST_NAME, d->home);
    (void)snprintf(place, sizeof(place), "%s" PLACE, d->home);
    return tunnel_open(&o, &d->tunnel, &d->vessel.stream_fd, err);
}

/* Nobody meters there, so that the kernel's own limit is all there is. */
static void tighten_cpu(struct jail *jail, int64_t cpu_ms)
{
    for (uint32_t i = 0; i < jail->rlimit_count; i++)
        if (jail->rlimits[i].resource == RLIMIT_CPU)
            jail->rlimits[i].value = (uint64_t)(cpu_ms + 999) / 1000;
}

/* The guest is none of the kernel's first processes there, and no root. */
static int confine(struct e2b *d, const struct plan *plan, int guest_fd,
                   struct vial_error *err)
{
    struct jail *jail = &d->vessel.jail;
    struct limits limits = plan->limits;
    const char *profile = plan->seccomp ? plan->seccomp : "default";
    char path[E2B_PATH + 16];

    if (plan->network != NETWORK_BRIDGE)
        profile = "offline"; /* whatever network the service gives */
    jail->flags = JAIL_NO_NEW_PRIVS | JAIL_DROP_CAPS;
    if (plan->fixed_addresses)
        jail->flags |= JAIL_FIXED_ADDRESSES;
    limits.file_bytes = confine_largest_file(plan, 0);
    confine_rlimits_of(jail, &limits, true);
    tighten_cpu(jail, limits.cpu_ms);
    (void)snprintf(path, sizeof(path), "%s" PLACE "/work", d->home);
    jail->workdir = strdup(path);
    (void)snprintf(path, sizeof(path), "%s" PLACE "/tmp", d->home);
    d->vessel.tmpdir = strdup(path);
    strv_push(&d->vessel.layers, "seccomp");
    strv_push(&d->vessel.layers, "no_new_privs");
    strv_push(&d->vessel.layers, "caps");
    if (!jail->workdir || !d->vessel.tmpdir || !strv_ok(&d->vessel.layers))
        return fail_memory(err);
    return seccomp_fill(jail, guest_fd, profile, plan, err);
}

/* All of it, whatever runs there. What cannot be reached ends with its lease. */
static void kill_sandbox(struct vessel *vessel)
{
    struct e2b *d = e2b_of(vessel);

    if (d->box.id[0] && !d->ended)
        (void)e2b_end(&d->endpoint, d->box.id, -1, NULL);
    d->ended = true;
}

static void explain(struct vessel *vessel, struct vial_error *err)
{
    const struct e2b *d = e2b_of(vessel);

    if (d->ended)
        return;
    tunnel_why(d->tunnel, err);
    (void)fail_remedy(err, "run it again; the service knows what ended the sandbox");
}

static void close_vessel(struct vessel *vessel)
{
    struct e2b *d = e2b_of(vessel);

    kill_sandbox(vessel);
    tunnel_close(d->tunnel);
    auto_fd_(&vessel->stream_fd);
    jail_done(&vessel->jail);
    strv_done(&vessel->layers);
    free(vessel->tmpdir);
    free(d);
}

static int open_vessel(const struct plan *plan, int guest_fd, struct vessel **out,
                       struct vial_error *err)
{
    struct e2b *d = NULL;

    if (check_plan(plan, err) < 0)
        return -1;
    d = calloc(1, sizeof(*d));
    if (!d)
        return fail_memory(err);
    d->vessel = (struct vessel){ .driver = &driver_e2b,
                                 .stream_fd = -1,
                                 .death_fd = -1,
                                 .event_fd = -1,
                                 .gate_fd = -1,
                                 .level = "remote",
                                 .limits_by = "rlimit",
                                 .path = PATH_SEARCH };
    sys_make_id('v', d->vessel.id);
    if (e2b_endpoint_find(&d->endpoint, err) < 0 || create(d, plan, err) < 0 ||
        check_internet(d, plan, err) < 0 || bring(d, guest_fd, err) < 0 ||
        start(d, err) < 0 || confine(d, plan, guest_fd, err) < 0) {
        close_vessel(&d->vessel);
        return -1;
    }
    *out = &d->vessel;
    return 0;
}

/* Only the guest can count there. */
static void usage(struct vessel *vessel, struct vessel_usage *out)
{
    (void)vessel;
    *out = (struct vessel_usage){ 0 };
}

static int sweep(int cancel_fd, unsigned *removed, struct vial_error *err)
{
    struct e2b_endpoint endpoint;

    *removed = 0;
    if (!e2b_endpoint_is_set())
        return 0;
    return e2b_endpoint_find(&endpoint, err) < 0
               ? -1
               : e2b_sweep(&endpoint, cancel_fd, removed, err);
}

static int list(struct vial_vessels *list, struct vial_error *err)
{
    struct e2b_endpoint endpoint;

    if (!e2b_endpoint_is_set())
        return 0;
    return e2b_endpoint_find(&endpoint, err) < 0 ? -1 : e2b_list(&endpoint, list, err);
}

const struct driver driver_e2b = {
    .name = "e2b",
    .probe = probe,
    .open = open_vessel,
    .kill = kill_sandbox,
    .usage = usage,
    .explain = explain,
    .close = close_vessel,
    .sweep = sweep,
    .list = list,
    .unheld =
        FIELD_BIT(FIELD_ID_disk) | FIELD_BIT(FIELD_ID_tmp) | FIELD_BIT(FIELD_ID_inodes),
    .remote = true,
    .far = true,
};
