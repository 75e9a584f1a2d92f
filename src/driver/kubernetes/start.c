/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/owner.h"
#include "base/sys.h"
#include "driver/docker/containers.h"
#include "driver/kubernetes/kubernetes.h"
#include "driver/kubernetes/own_pod.h"
#include "driver/kubernetes/pod.h"
#include "driver/native/confinement.h"
#include "driver/native/seccomp.h"
#include "http/ws_frame.h"

#define GUEST_MAX (16 << 20) /* far more than it ever is */
#define PIECE     (32u << 10)
#define COME_MS   30000 /* a guest that was brought is there at once */
#define WATCH_MS                                                                       \
    INT64_C(5000)     /* then it is asked anew: a watch can miss a server's end */
#define PING_MS 20000 /* so that nobody in between takes the stream for dead */

/* Each open removes some of what dead owners left, unless it is so young that it may be
 * about to go by itself. */
#define SWEEP_SOME  4
#define SWEEP_AGE_S 30

static int64_t left_ms(int64_t end_ns)
{
    int64_t ms = (end_ns - clock_now_ns()) / 1000000;

    return ms > 0 ? ms : 0;
}

/* What the cluster calls this architecture, which is the guest's. */
#if defined(__aarch64__)
    #define OWN_ARCH "arm64"
#else
    #define OWN_ARCH "amd64"
#endif

/* Its creation. */

static int64_t room_ms(const struct plan *plan)
{
    const struct plan_container *c = &plan->container;

    return c->open_ms + (c->pull == PULL_NEVER ? 0 : c->pull_ms);
}

static int guest_size(int guest_fd, size_t *out, struct vial_error *err)
{
    struct stat st;

    if (fstat(guest_fd, &st) < 0)
        return fail_sys(err, "look at the guest program");
    if (st.st_size <= 0 || st.st_size > GUEST_MAX)
        return fail(err, VIAL_E_GUEST, "the guest program has a strange size");
    *out = (size_t)st.st_size;
    return 0;
}

static int post_pod(struct kube *k, json_t *body, struct vial_error *err)
{
    char path[POD_PATH_MAX];
    struct vial_error why = { 0 };
    const struct cluster_call call = {
        .method = "POST", .path = path, .body = body, .about = "create the pod"
    };

    (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods",
                   k->api.cluster.namespace);
    /* From here on there may be one, whatever is heard of it. */
    (void)snprintf(k->path, sizeof(k->path), "/api/v1/namespaces/%s/pods/%s",
                   k->api.cluster.namespace, k->vessel.name);
    if (cluster_do(&k->api, &call, NULL, &why) == 0 || cluster_is_taken(&why))
        return 0; /* by an earlier try of ours: nobody else finds the name */
    if (err)
        *err = why;
    if (!cluster_is_missing(&why))
        return -1;
    (void)fail(err, VIAL_E_CLUSTER_CONFIG, "create the pod: there is no namespace '%s'",
               k->api.cluster.namespace);
    return fail_remedy(err,
                       "create it, or choose another by VIAL_KUBERNETES_NAMESPACE");
}

static int create_pod(struct kube *k, const struct plan *plan, int guest_fd,
                      struct vial_error *err)
{
    auto_str struct str name = { 0 };
    auto_json json_t *body = NULL;
    char owner[128];
    char host[CONTAINERS_HOST];
    struct own_pod maker;
    struct pod_options o = { .vessel_id = k->vessel.id,
                             .owner = owner,
                             .host = host,
                             .arch = OWN_ARCH,
                             .uid = pod_user(k->vessel.id),
                             .room_seconds = room_ms(plan) / 1000 + 1 };

    containers_host(host);
    own_pod_find(&k->api, &maker);
    if (maker.name[0]) {
        o.maker = maker.name;
        o.maker_uid = maker.uid;
    }
    if (owner_name(k->vessel.id, owner, sizeof(owner)) < 0)
        return fail(err, VIAL_E_SYSTEM, "find our own start time");
    if (guest_size(guest_fd, &o.guest_bytes, err) < 0)
        return -1;
    pod_name(&name, plan, k->vessel.id);
    body = pod_json(plan, &o);
    k->vessel.until_ns = clock_now_ns() + pod_deadline_s(plan, &o) * 1000000000;
    if (!str_ok(&name) || !body)
        return fail_memory(err);
    (void)snprintf(k->vessel.name, sizeof(k->vessel.name), "%s", name.data);
    return post_pod(k, body, err);
}

/* Until it runs. */

int pod_look(struct kube *k, struct vial_error *err)
{
    auto_json json_t *pod = NULL;
    struct vial_error why = { 0 };
    const struct cluster_call call = { .method = "GET",
                                       .path = k->path,
                                       .about = "look at the pod" };

    if (cluster_do(&k->api, &call, &pod, &why) < 0) {
        if (!cluster_is_missing(&why)) {
            if (err)
                *err = why;
            return -1;
        }
        k->last = (struct pod_status){ .phase = POD_ENDED };
        (void)pod_status_gone(&k->last.why);
        return 0;
    }
    pod_status_read(pod, &k->last);
    return 0;
}

static bool take_event(void *context, json_t *event)
{
    const char *type = json_string_value(json_object_get(event, "type"));
    struct kube *k = context;

    if (!str_eq(type, "ADDED") && !str_eq(type, "MODIFIED"))
        return false; /* the next look tells */
    pod_status_read(json_object_get(event, "object"), &k->last);
    return k->last.phase == POD_WAITS;
}

/* Returns early when there is something to see. */
static void watch_pod(struct kube *k, int64_t end_ns)
{
    char path[POD_PATH_MAX + 160];
    int64_t ms = left_ms(end_ns) < WATCH_MS ? left_ms(end_ns) : WATCH_MS;
    const struct cluster_call call = {
        .method = "GET", .path = path, .timeout_ms = ms + 1000, .about = "watch the pod"
    };

    (void)snprintf(
        path, sizeof(path),
        "/api/v1/namespaces/%s/pods?watch=1&fieldSelector=metadata.name%%3D%s"
        "&timeoutSeconds=%lld",
        k->api.cluster.namespace, k->vessel.name, (long long)(ms / 1000 + 1));
    if (cluster_watch(&k->api, &call, take_event, k, NULL) < 0)
        (void)poll(NULL, 0, AGAIN_MS);
}

/* What the shell said is all there is. */
static int say_not_brought(struct kube *k, const char *said, struct vial_error *err)
{
    (void)fail(err, VIAL_E_CLUSTER_START,
               "start the guest in the pod: the image's shell did not");
    (void)fail_remedy(err, "use an image with /bin/sh, head and chmod, for programs of "
                           "this host's architecture");
    cluster_add_cause(err, said);
    if (pod_look(k, NULL) == 0 && k->last.oom) {
        (void)fail(err, VIAL_E_CLUSTER_START,
                   "start the guest in the pod: there was not enough memory");
        (void)fail_remedy(err, "allow more with '--memory': a pod needs some 16m for "
                               "itself");
    }
    return -1;
}

static int say_late(const struct kube *k, const struct plan *plan,
                    struct vial_error *err)
{
    if (k->last.why.code[0]) {
        if (err)
            *err = k->last.why;
        return -1;
    }
    (void)fail(err, VIAL_E_CLUSTER_START, "the pod did not start within %lld ms",
               (long long)room_ms(plan));
    return fail_remedy(err, "see 'kubectl describe pod'; or wait longer with "
                            "'--open-timeout' and '--pull-timeout'");
}

/* Without a cause it was its shell that ended, which runs before anybody attaches. */
static int say_ended(struct kube *k, const struct plan *plan, struct vial_error *err)
{
    return k->last.phase == POD_ENDED && !k->last.why.code[0]
               ? say_not_brought(k, "", err)
               : say_late(k, plan, err);
}

/* An API server that is started anew answers nobody for a while, or knows nobody. */
static int look_patiently(struct kube *k, int64_t end_ns, struct vial_error *err)
{
    const int64_t away_ns = clock_now_ns() + AWAY_MS * 1000000;

    for (;;) {
        struct vial_error why = { 0 };

        if (pod_look(k, &why) == 0)
            return 0;
        if (left_ms(end_ns < away_ns ? end_ns : away_ns) == 0) {
            if (err)
                *err = why;
            return -1;
        }
        (void)poll(NULL, 0, AGAIN_MS);
    }
}

/* Pulling has a time of its own; room for it has not. */
static int wait_until_running(struct kube *k, const struct plan *plan,
                              struct vial_error *err)
{
    const int64_t began_ns = clock_now_ns();
    const int64_t end_ns = began_ns + room_ms(plan) * 1000000;
    const int64_t room_ns = began_ns + plan->container.open_ms * 1000000;

    for (;;) {
        if (look_patiently(k, end_ns, err) < 0)
            return -1;
        if (k->last.phase == POD_WAITS)
            watch_pod(k, k->last.why.code[0] ? room_ns : end_ns);
        if (k->last.phase == POD_RUNS)
            return 0;
        if (k->last.phase != POD_WAITS)
            return say_ended(k, plan, err);
        if (left_ms(k->last.why.code[0] ? room_ns : end_ns) == 0)
            return say_late(k, plan, err);
    }
}

/* The guest. */

static int attach(struct kube *k, struct vial_error *err)
{
    char path[POD_PATH_MAX + 96];
    const struct cluster_call call = { .method = "GET",
                                       .path = path,
                                       .about = "attach to the pod" };

    (void)snprintf(
        path, sizeof(path),
        "%s/attach?container=%s&stdin=true&stdout=true&stderr=false&tty=false", k->path,
        POD_CONTAINER);
    return cluster_attach(&k->api, &call, &k->attached_fd, &k->early, err);
}

static size_t wrap(void *state, uint8_t *data, size_t len)
{
    uint8_t head[CHANNELS_HEAD];
    uint8_t mask[4] = { 0 };
    size_t n;

    (void)state;
    (void)sys_random(mask, sizeof(mask));
    channels_mask(data, len, 1, mask);
    data[-1] = (uint8_t)(CHANNEL_STDIN ^ mask[0]);
    n = channels_head(head, OP_BINARY, len + 1, mask);
    memcpy(data - 1 - n, head, n);
    return n + 1;
}

static bool send_all(int fd, const uint8_t *data, size_t len, int64_t end_ns)
{
    while (len > 0) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0) {
            data += n;
            len -= (size_t)n;
        } else if ((errno != EAGAIN && errno != EINTR) ||
                   poll(&p, 1, (int)left_ms(end_ns)) == 0) {
            return false;
        }
    }
    return true;
}

/* What became of it shows in what comes back. */
static void send_guest(struct kube *k, int guest_fd, int64_t end_ns)
{
    auto_free uint8_t *room = malloc(PUMP_ROOM + PIECE);
    off_t at = 0;
    ssize_t n = 0;

    while (room && (n = pread(guest_fd, room + PUMP_ROOM, PIECE, at)) > 0) {
        size_t head = wrap(NULL, room + PUMP_ROOM, (size_t)n);

        if (!send_all(k->attached_fd, room + PUMP_ROOM - head, head + (size_t)n,
                      end_ns))
            return;
        at += n;
    }
}

/* One byte at a time: what comes behind the line is the pump's. */
static bool next_byte(struct kube *k, size_t *early_at, uint8_t *out, int64_t end_ns)
{
    struct pollfd p = { .fd = k->attached_fd, .events = POLLIN };

    if (*early_at < k->early.len) {
        *out = (uint8_t)k->early.data[(*early_at)++];
        return true;
    }
    for (;;) {
        ssize_t n = recv(k->attached_fd, out, 1, MSG_DONTWAIT);

        if (n == 1)
            return true;
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return false;
        if (poll(&p, 1, (int)left_ms(end_ns)) == 0)
            return false;
    }
}

static size_t read_line(struct kube *k, char *line, size_t size, int64_t end_ns)
{
    size_t early_at = 0;
    size_t len = 0;
    uint8_t byte;

    while (len + 1 < size && !k->channels.closed &&
           next_byte(k, &early_at, &byte, end_ns)) {
        ssize_t n = channels_take(&k->channels, &byte, 1);

        if (n < 0)
            break;
        if (n > 0)
            line[len++] = (char)byte;
        if (n > 0 && byte == '\n')
            break;
    }
    line[len] = '\0';
    if (k->early.data && early_at > 0) {
        memmove(k->early.data, k->early.data + early_at, k->early.len - early_at);
        k->early.len -= early_at;
    }
    return len;
}

static int bring_guest(struct kube *k, int guest_fd, struct vial_error *err)
{
    static const char name[] = "vial-init ";
    const int64_t end_ns = clock_now_ns() + (int64_t)COME_MS * 1000000;
    char line[256];
    char *end = NULL;
    size_t len;

    send_guest(k, guest_fd, end_ns);
    len = read_line(k, line, sizeof(line), end_ns);
    if (len > 0 && line[len - 1] == '\n' && str_starts(line, name))
        k->landlock_abi = strtol(line + strlen(name), &end, 10);
    return end && *end == '\n' ? 0 : say_not_brought(k, line, err);
}

/* The stream. */

static ssize_t strip(void *state, uint8_t *data, size_t len)
{
    struct channels *c = state;
    ssize_t n = channels_take(c, data, len);

    return n == 0 && c->closed ? -1 : n;
}

static size_t control(void *state, bool idle, uint8_t *out)
{
    struct channels *c = state;
    uint8_t mask[4] = { 0 };
    size_t len = c->ponged ? c->ping_len : 0;
    size_t n;

    if (!c->ponged && !idle)
        return 0;
    (void)sys_random(mask, sizeof(mask));
    n = channels_head(out, c->ponged ? OP_PONG : OP_PING, len, mask);
    memcpy(out + n, c->ping, len);
    channels_mask(out + n, len, 0, mask);
    c->ponged = false;
    return n + len;
}

static const struct pump_code line_code = {
    .strip = strip, .wrap = wrap, .control = control, .idle_ms = PING_MS
};

/* Not "net": its network leads to the cluster; nor "user": root inside is the node's,
 * though nobody is root. */
const char *const pod_layers[] = { "pid",          "mount",   "ipc",     "uts", "caps",
                                   "no_new_privs", "ro_root", "seccomp", NULL };

static void add_layers(struct kube *k)
{
    for (size_t i = 0; pod_layers[i]; i++)
        strv_push(&k->vessel.layers, pod_layers[i]);
    if (k->landlock_abi > 0)
        strv_push(&k->vessel.layers, "landlock");
}

/* The pod has dropped ids and rights already; the guest sees to it that each program is
 * without them, and adds its filters. Without a network these are what keeps programs
 * off the pod's. */
static int fill_jail(struct kube *k, const struct plan *plan, int guest_fd,
                     struct vial_error *err)
{
    struct jail *jail = &k->vessel.jail;
    unsigned uid = pod_user(k->vessel.id);
    const struct confine_options o = { .landlock = k->landlock_abi > 0,
                                       .uid = uid,
                                       .gid = uid };
    const char *profile = plan->seccomp ? plan->seccomp : "default";

    if (plan->network != NETWORK_BRIDGE)
        profile = "offline";
    if (confine_fill(jail, plan, &o, err) < 0 ||
        seccomp_fill(jail, guest_fd, profile, plan, err) < 0)
        return -1;
    jail->flags &= ~(uint32_t)JAIL_SET_IDS;
    if (plan->limits.pids > 0)
        confine_rlimit(jail, RLIMIT_NPROC, plan->limits.pids + 1);
    add_layers(k);
    return strv_ok(&k->vessel.layers) ? 0 : fail_memory(err);
}

/* The cluster is busy with the pod meanwhile. A server that has too much to do is not
 * asked twice. */
static void sweep_some(struct kube *k)
{
    const unsigned retries = k->api.retries;

    k->api.retries = 0;
    (void)pods_sweep(&k->api, SWEEP_AGE_S, SWEEP_SOME, &k->vessel.swept, NULL);
    k->api.retries = retries;
}

int start_pod(struct kube *k, const struct plan *plan, int guest_fd,
              struct vial_error *err)
{
    if (create_pod(k, plan, guest_fd, err) < 0)
        return -1;
    sweep_some(k);
    if (wait_until_running(k, plan, err) < 0 || attach(k, err) < 0 ||
        bring_guest(k, guest_fd, err) < 0 || fill_jail(k, plan, guest_fd, err) < 0)
        return -1;
    (void)snprintf(k->vessel.container, sizeof(k->vessel.container), "%s", k->last.uid);
    memcpy(k->vessel.digest, k->last.digest, sizeof(k->vessel.digest));
    return pump_start(fd_take(&k->attached_fd), &k->early, &line_code, &k->channels,
                      &k->pump, &k->vessel.stream_fd, err);
}
