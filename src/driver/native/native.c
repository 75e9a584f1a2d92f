/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/native.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/path.h"
#include "base/sys.h"
#include "driver/gate_process.h"
#include "driver/native/child_script.h"
#include "driver/native/confinement.h"
#include "driver/native/host_tree.h"
#include "driver/native/idmap.h"
#include "driver/native/image_layers.h"
#include "driver/native/landlock_only.h"
#include "driver/native/launch.h"
#include "driver/native/mounts.h"
#include "driver/native/seccomp.h"
#include "driver/native/trial.h"
#include "driver/native/vessel.h"
#include "driver/native/zygote.h"
#include "images/store_ids.h"
#include "plan/secret_rules.h"
#include "wire/weaken.h"

#define BUNDLE_MAX  (2u << 20)
#define SWEEP_A_FEW 8 /* foreign cgroups looked at on the way of an open */

struct space {
    const char *layer;
    uint64_t flag;
};

static const struct space spaces[] = {
    { "user", CLONE_NEWUSER }, { "pid", CLONE_NEWPID }, { "mount", CLONE_NEWNS },
    { "net", CLONE_NEWNET },   { "ipc", CLONE_NEWIPC }, { "uts", CLONE_NEWUTS },
};

static uint64_t wanted_spaces(void)
{
    uint64_t flags = 0;

    for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++)
        flags |= weaken(spaces[i].layer) ? 0 : spaces[i].flag;
    return flags;
}

static int refuse(struct vial_error *err, const char *what, const char *remedy)
{
    (void)fail(err, VIAL_E_UNSUPPORTED, "driver 'native' cannot give the program %s",
               what);
    return fail_remedy(err, "%s", remedy);
}

static int check_plan(const struct plan *plan, struct vial_error *err)
{
    if (plan->network == NETWORK_BRIDGE)
        return refuse(err, "a network",
                      "use '--driver docker', '--network gate', or '--network none'");
    return mounts_check(plan, err);
}

/* What root inside needs: users, and an exec that can give rights. */
static int check_root(const struct plan *plan, bool has_users, struct vial_error *err)
{
    const struct plan_root *root = &plan->root;

    if ((root->as_root || root->sudo) && !has_users) {
        (void)fail(err, VIAL_E_UNSUPPORTED,
                   "an ordinary user's vessel has one user, who is not root");
        return fail_remedy(err, "%s",
                           plan->mount_count
                               ? "leave out 'user' and 'sudo', or all mounts and the "
                                 "workspace; or run vial, or its daemon, as root"
                               : "leave out 'user' and 'sudo'; have a range of ids in "
                                 "/etc/subuid before the store's first image ('vial "
                                 "doctor'); or run vial, or its daemon, as root");
    }
    if (!root->sudo || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
        return 0;
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "sudo cannot work here: vial itself runs without new privileges");
    return fail_remedy(err, "use '--user root'; or start vial, or its daemon, where "
                            "programs can get privileges (systemd: "
                            "NoNewPrivileges=no)");
}

/* Where a directory is missing its number is filled with a neighbour's: joining
 * twice is joining once. */
static int send_joining(const struct launch *l, const struct cgroup *c,
                        struct vial_error *err)
{
    int fds[CGROUP_JOINED];

    for (size_t i = 0; i < CGROUP_JOINED; i++)
        fds[i] = c->dirs[i].join_fd >= 0 ? c->dirs[i].join_fd : c->dirs[0].join_fd;
    if (c->kind != CGROUP_V1 || fds[0] < 0) /* born in it, or not allowed to make any */
        return launch_send(l, NULL, 0, err);
    return launch_send(l, fds, CGROUP_JOINED, err);
}

static void add_layers(struct native *n, const struct plan *plan)
{
    struct strv *layers = &n->vessel.layers;
    const struct jail *jail = &n->vessel.jail;

    for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++) {
        if (!weaken(spaces[i].layer))
            strv_push(layers, spaces[i].layer);
    }
    if (!weaken("cgroupns"))
        strv_push(layers, "cgroup");
    if (jail->flags & JAIL_SECCOMP)
        strv_push(layers, "seccomp");
    if (jail->flags & JAIL_LANDLOCK)
        strv_push(layers, "landlock");
    if (jail->flags & JAIL_NO_NEW_PRIVS)
        strv_push(layers, "no_new_privs");
    if (jail->flags & JAIL_DROP_CAPS)
        strv_push(layers, "caps");
    if (plan_has_root(plan) || (!(n->lacks & LACKS_USR_OVERLAY) && !weaken("overlay")))
        strv_push(layers, "overlay");
    if (!plan->root.writable && !weaken("ro"))
        strv_push(layers, "ro_root");
}

static const char *limits_by(const struct cgroup *c)
{
    if (c->kind == CGROUP_NONE || !c->complete)
        return "rlimit";
    return c->kind == CGROUP_V2 ? "cgroup2" : "cgroup1";
}

/* A set-uid file stays in the vessel's own layer where nothing of the host's can be
 * written to, but volumes, whose store nobody else can enter; and root inside has to be
 * able to make one. */
static bool may_set_ids(const struct plan *plan)
{
    for (size_t i = 0; i < plan->mount_count; i++)
        if (!plan->mounts[i].volume &&
            (plan->mounts[i].writable || plan->mounts[i].overlay))
            return false;
    return plan->root.as_root || plan->root.sudo;
}

static int fill_filters(struct native *n, const struct plan *plan, int guest_fd,
                        struct vial_error *err)
{
    const char *name = plan->seccomp ? plan->seccomp : "default";

    if (str_eq(name, "default") && may_set_ids(plan))
        name = PLAN_MACHINE_PROFILE;
    return seccomp_fill(&n->vessel.jail, guest_fd, name, plan, err);
}

/* The parent does this while the child builds the root. */
static int prepare_jail(struct native *n, const struct plan *plan,
                        const struct launch *l, int guest_fd, struct vial_error *err)
{
    int abi = weaken("landlock") ? 0 : native_landlock_abi();
    struct confine_options o = { .limits_by_rlimit = n->cgroup.kind == CGROUP_NONE,
                                 .landlock = abi > 0,
                                 .uid = l->uid,
                                 .gid = l->gid };

    if (abi < 0)
        return fail_sys_rc(err, abi, "ask for Landlock");

    if (n->cgroup.counter_fds[0] < 0) /* or it will be joined again */
        cgroup_joined(&n->cgroup);
    if (confine_fill(&n->vessel.jail, plan, &o, err) < 0)
        return -1;
    if (!weaken("seccomp") && fill_filters(n, plan, guest_fd, err) < 0)
        return -1;
    if (!n->shared)
        (void)cgroup_sweep(&n->cgroup, SWEEP_A_FEW);
    return 0;
}

static bool is_v2(const struct native *n)
{
    if (n->shared && n->shared->base.kind != CGROUP_NONE)
        return n->shared->base.kind == CGROUP_V2;
    return cgroup_is_v2();
}

/* Where a janitor serves all, below its base; else with one of its own, which is there
 * before the group is. PIDFD is the guest, or -1: it is not born yet. */
static int make_cgroup(struct native *n, const struct plan *plan, int pidfd,
                       struct vial_error *err)
{
    bool tended = native_shared_tend(n->shared);

    if (weaken("cgroup") || (tended && native_shared_group(n->shared, n->vessel.id,
                                                           &plan->limits, &n->cgroup)))
        return 0;
    if (cgroup_find(n->vessel.id, &n->cgroup, err) < 0)
        return -1;
    if (n->cgroup.kind == CGROUP_V2 && pidfd >= 0)
        return fail(err, VIAL_E_OPEN, "find our own cgroup: it has just changed");
    if (n->cgroup.kind != CGROUP_NONE &&
        !(tended && native_shared_reach(n->shared, &n->cgroup)))
        janitor_start(&n->janitor, &n->cgroup, pidfd);
    return cgroup_create(&n->cgroup, &plan->limits, err);
}

static int have_cgroup(struct native *n, const struct plan *plan, int pidfd,
                       struct vial_error *err)
{
    if (make_cgroup(n, plan, pidfd, err) < 0)
        return -1;
    if (plan->yields)
        cgroup_weigh(&n->cgroup, CGROUP_YIELDS);
    return 0;
}

static int join(struct native *n, const struct plan *plan, struct script *s,
                const struct launch *l, struct vial_error *err)
{
    /* v2 has it since before the child, who was born in it. */
    if (!is_v2(n) && have_cgroup(n, plan, l->pidfd, err) < 0)
        return -1;
    if (child_script_rest(s, plan, &n->cgroup, l, err) < 0)
        return -1;
    return send_joining(l, &n->cgroup, err);
}

static bool is_variable(const char *entry)
{
    size_t len = strspn(entry, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_");

    return len > 0 && entry[len] == '=' && !(entry[0] >= '0' && entry[0] <= '9');
}

/* What the image says of itself, within its bounds. */
static void take_image(struct native *n, const struct plan *plan, struct launch *l)
{
    struct stored_image *from = &l->image->stored;
    struct vessel *v = &n->vessel;

    for (size_t i = 0; i < from->env.count; i++)
        if (is_variable(from->env.items[i]))
            strv_push(&v->env, from->env.items[i]);
    v->cwd = ptr_take(&from->cwd);
    strv_copy(&v->imports, &from->imports);
    v->pool =
        from->template_pool ? (unsigned)strtoul(from->template_pool, NULL, 10) : 0;
    strv_copy(&v->entrypoint, &from->entrypoint);
    strv_copy(&v->cmd, &from->cmd);
    (void)snprintf(v->digest, sizeof(v->digest), "%s", from->digest);
    v->owners = l->image->unmapped         ? "nobody"
                : l->first_id || l->ranged ? "image"
                                           : "one";
    n->image_fd = fd_take(&from->lock_fd);
    snapshot_learn(&n->snapshot, plan, from->digest, l);
}

static void take_launch(struct native *n, const struct plan *plan, struct launch *l)
{
    n->vessel.stream_fd = fd_take(&l->stream[0]);
    n->vessel.death_fd = fd_take(&l->pidfd);
    n->vessel.layered = l->layer_fd[1] >= 0;
    n->vessel.layer_fd = fd_take(&l->layer_fd[0]);
    n->vessel.merged_fd = fd_take(&l->layer_fd[1]);
    n->vessel.layer_id = launch_id(l, l->uid);
    n->pid = l->pid;
    l->pid = 0;
    add_layers(n, plan);
    if (l->image)
        take_image(n, plan, l);
}

/* The host's certificates, if it has some, and the vessel's own. */
static int join_bundle(struct launch *l, struct vial_error *err)
{
    auto_str struct str all = { 0 };
    struct blob host = { 0 };

    if (!l->authority)
        return 0;
    if (io_read_file(SECRET_BUNDLE, BUNDLE_MAX, &host, NULL) == 0 && host.data &&
        !memchr(host.data, 0, host.len))
        str_add(&all, host.data, host.len);
    blob_done(&host);
    str_puts(&all, l->authority);
    l->bundle = str_take(&all);
    return l->bundle ? 0 : fail_memory(err);
}

/* Its word lies in the stream before the guest is there to read it. */
static int open_gate(struct native *n, const struct plan *plan, struct launch *l,
                     struct vial_error *err)
{
    struct gate_process gate = GATE_PROCESS_NONE;

    if (plan->network != NETWORK_GATE)
        return 0;
    if (gate_process_start(plan, l->stream[0], &gate, err) < 0)
        return -1;
    n->gate_pidfd = gate.pidfd;
    n->secrets_pidfd = gate.secrets_pidfd;
    n->vessel.gate_fd = gate.owner_fd;
    l->authority = gate.authority;
    return join_bundle(l, err);
}

static int begin(struct native *n, const struct plan *plan, struct script *script,
                 struct launch *l, int guest_fd, struct vial_error *err)
{
    int into_fd = -1;

    if (is_v2(n) && have_cgroup(n, plan, -1, err) < 0)
        return -1;
    if (n->cgroup.kind == CGROUP_V2)
        into_fd = n->cgroup.dirs[0].fd;
    if (n->shared && n->shared->guest_fd >= 0)
        guest_fd = n->shared->guest_fd;
    if (launch_prepare(l, guest_fd, err) < 0 || open_gate(n, plan, l, err) < 0)
        return -1;
    script->unhurried = n->shared != NULL;
    script->own_pids = !weaken("pid");
    child_script_begin(script, l, n->janitor.leash_fd);
    return launch_begin(l, script, wanted_spaces() & ~(uint64_t)CHILD_SCRIPT_SPACES,
                        into_fd, err);
}

/* The child is under way meanwhile. */
static int look_at_host(const struct native *n, struct launch *l,
                        struct vial_error *err)
{
    l->host = n->shared ? native_shared_host(n->shared, err) : host_read(err);
    if (!l->host)
        return -1;
    l->own_devices = l->privileged && !(n->lacks & LACKS_OWN_DEVICES) &&
                     !weaken("dev") && !weaken("shm") && l->host->own_devices;
    return 0;
}

/* Who its programs are: as the plan says, or the image, in numbers; else the usual. */
static void choose_user(const struct plan *plan, const struct stored_image *image,
                        struct launch *l)
{
    if (plan->root.as_root) {
        l->uid = l->gid = 0;
    } else if (image->uid && image->gid && image->uid < IDMAP_RANGE &&
               image->gid < IDMAP_RANGE && !plan->root.writable) {
        l->uid = image->uid;
        l->gid = image->gid;
    }
}

static int find_image(struct native *n, const struct plan *plan, struct launch *l,
                      struct image_layers *image, struct vial_error *err)
{
    /* What the caller shows is his alone, and must stay so: then he is all there is. */
    l->ranged = !l->privileged && plan->mount_count == 0 && !weaken("user") &&
                store_ids_hold(plan->root.store, &l->subids);
    if (check_root(plan, launch_has_users(l), err) < 0 ||
        image_layers_read(plan, image, err) < 0)
        return -1;
    l->image = image;
    if (!launch_has_users(l))
        return 0;
    choose_user(plan, &image->stored, l);
    if (!l->privileged)
        return 0;
    n->ids_fd = idmap_take_range(&l->first_id, err);
    return n->ids_fd < 0 ? -1 : 0;
}

static int set_up(struct native *n, const struct plan *plan, int guest_fd,
                  bool *doubtful, struct vial_error *err)
{
    auto_script struct script *script = child_script_new(plan);
    auto_image_layers struct image_layers image = IMAGE_LAYERS_NONE;
    auto_launch struct launch launch = LAUNCH_NONE;
    int privileged = idmap_privileged();
    int dumpable = prctl(PR_GET_DUMPABLE);
    bool failed = false;

    if (!script)
        return fail_memory(err);
    if (privileged < 0)
        return fail_sys_rc(err, privileged, "read our own id map");
    launch.privileged = privileged;
    launch.lacks = n->lacks;
    launch.uid = launch.gid = IDMAP_PROGRAM;
    launch.volumes = &n->volumes;
    if (held_volumes_open(&n->volumes, plan, err) < 0)
        return -1;
    if (plan_has_root(plan) && find_image(n, plan, &launch, &image, err) < 0)
        return -1;

    failed = begin(n, plan, script, &launch, guest_fd, err) < 0 ||
             look_at_host(n, &launch, err) < 0 ||
             child_script_root(script, plan, &launch, err) < 0 ||
             launch_settle(&launch, script, plan, err) < 0 ||
             launch_copy(&launch, guest_fd, err) < 0 ||
             join(n, plan, script, &launch, err) < 0 ||
             prepare_jail(n, plan, &launch, guest_fd, err) < 0 ||
             launch_finish(&launch, script, err) < 0;
    /* The child's change of ids made the memory it shared with us secret. Two opens at
     * once may leave it so, which is the safe side. */
    if (dumpable == 1)
        (void)prctl(PR_SET_DUMPABLE, 1);
    if (failed) {
        *doubtful = launch.doubtful;
        return -1;
    }
    n->vessel.limits_by = limits_by(&n->cgroup);
    take_launch(n, plan, &launch);
    return strv_ok(&n->vessel.layers) && !n->vessel.env.failed ? 0 : fail_memory(err);
}

/* An order says what is to be opened, and out of what. */
struct order {
    struct native_shared *shared; /* or NULL */
    const struct plan *plan;
    int guest_fd;
    unsigned lacks; /* LACKS_* */
};

static int open_once(const struct order *o, struct vessel **out, bool *doubtful,
                     struct vial_error *err)
{
    struct native *n = calloc(1, sizeof(*n));

    if (!n)
        return fail_memory(err);
    n->vessel = (struct vessel){ .driver = &driver_native,
                                 .stream_fd = -1,
                                 .death_fd = -1,
                                 .event_fd = -1,
                                 .gate_fd = -1,
                                 .layer_fd = -1,
                                 .merged_fd = -1,
                                 .level = "namespaces",
                                 .limits_by = "none",
                                 .path = PATH_SEARCH };
    cgroup_forget(&n->cgroup);
    n->janitor = JANITOR_NONE;
    n->unmount_fd = n->gate_pidfd = n->secrets_pidfd = -1;
    n->image_fd = n->ids_fd = -1;
    n->snapshot = (struct snapshot)SNAPSHOT_NONE;
    n->shared = o->shared;
    n->only_ours = o->plan->mount_count == 0 && !o->plan->rootfs;
    n->lacks = o->lacks;
    n->meter.memory_limit = weaken("meter") ? 0 : o->plan->limits.memory_bytes;
    sys_make_id('v', n->vessel.id);
    if (set_up(n, o->plan, o->guest_fd, doubtful, err) < 0) {
        native_close(&n->vessel);
        return -1;
    }
    *out = &n->vessel;
    return 0;
}

/* After an open that failed with ERR, for something that some hosts have not. Vessels
 * of a lower tier are named by their level and layers; whoever requires more refuses
 * them. */
static int open_lower(const struct order *o, struct vessel **out,
                      struct vial_error *err)
{
    struct order lower = *o;
    bool more = false;
    struct trial trial;

    trial_run(&trial);
    if (!trial.ran)
        return -1;
    if (trial.namespaces && o->plan->network == NETWORK_GATE)
        return -1; /* without a network namespace there is nothing to stand before */
    if (trial.namespaces)
        return native_landlock_abi() > 0 && !plan_has_root(o->plan)
                   ? landlock_only_open(o->plan, o->guest_fd, out, err)
                   : -1;
    if (!(trial.lacks & ~o->lacks))
        return fail_remedy(err, "a trial of the same worked just now: try again, and "
                                "look into the host's log if it fails again");
    lower.lacks |= trial.lacks;
    if (o->shared)
        o->shared->lacks |= trial.lacks;
    return open_once(&lower, out, &more, err);
}

static int open_supplied(struct native_shared *shared, const struct plan *plan,
                         int guest_fd, struct vessel **out, struct vial_error *err)
{
    struct order order = { shared, plan, guest_fd, shared ? shared->lacks : 0 };
    struct vial_error why = { 0 };
    bool doubtful = false;
    int rc = check_plan(plan, &why);

    if (rc == 0)
        rc = open_once(&order, out, &doubtful, &why);
    if (rc < 0 && doubtful)
        rc = open_lower(&order, out, &why);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static int open_vessel(const struct plan *plan, int guest_fd, struct vessel **out,
                       struct vial_error *err)
{
    return open_supplied(NULL, plan, guest_fd, out, err);
}

static int sweep(int cancel_fd, unsigned *removed, struct vial_error *err)
{
    struct cgroup c;

    (void)cancel_fd; /* it takes no time */
    (void)err;
    *removed = cgroup_open_base(&c) == 0 ? cgroup_sweep(&c, ~0u) : 0;
    cgroup_close(&c);
    return 0;
}

int native_join_fds(struct vessel *vessel, int *fds, struct vial_error *err)
{
    struct cgroup *c = &native_of(vessel)->cgroup;
    const char *name = c->kind == CGROUP_V2 ? "cgroup.procs" : "tasks";
    int count = 0;

    for (size_t i = 0; i < CGROUP_DIRS && c->kind != CGROUP_NONE; i++) {
        struct cgroup_dir *d = &c->dirs[i];

        if (d->fd < 0 && d->join_fd < 0)
            continue;
        if (d->join_fd < 0)
            d->join_fd = openat(d->fd, name, O_WRONLY | O_CLOEXEC);
        if (d->join_fd < 0)
            return fail_sys(err, "open the vessel's cgroup");
        fds[count++] = d->join_fd;
    }
    if (count == 0 && c->kind != CGROUP_NONE)
        return fail(err, VIAL_E_INTERNAL, "join the vessel's cgroup: too late");
    return count;
}

char *native_path_inside(struct vessel *vessel, const char *path)
{
    struct str text = { 0 };

    str_printf(&text, "/proc/%d/root%s", (int)native_of(vessel)->pid, path);
    return str_ok(&text) ? text.data : NULL;
}

/* Nothing but a cgroup can be changed from outside. */
static int limit_vessel(struct vessel *vessel, const struct limits *limits,
                        struct vial_error *err)
{
    struct native *n = native_of(vessel);

    if (vessel->driver != &driver_native || !str_starts(vessel->limits_by, "cgroup"))
        return fail(err, VIAL_E_UNSUPPORTED, "no cgroup holds the vessel's limits");
    return n->cgroup.kind == CGROUP_V2 ? cgroup_v2_limit(&n->cgroup, limits, err)
                                       : cgroup_v1_limit(&n->cgroup, limits, err);
}

/* A vessel of the lower tier is another driver's, and knows it. */

static void kill_any(struct vessel *vessel)
{
    if (vessel->driver == &driver_native)
        native_kill(vessel);
    else
        vessel->driver->kill(vessel);
}

static void usage_of_any(struct vessel *vessel, struct vessel_usage *out)
{
    if (vessel->driver == &driver_native)
        native_usage(vessel, out);
    else
        vessel->driver->usage(vessel, out);
}

static void usage_of_any_now(struct vessel *vessel, struct vessel_usage *out)
{
    usage_of_any(vessel, out);
    if (vessel->driver == &driver_native)
        cgroup_read_now(&native_of(vessel)->cgroup, out);
}

static void spent_of_any(struct vessel *vessel, struct vessel_usage *out)
{
    if (vessel->driver == &driver_native)
        native_spent(vessel, out);
    else
        vessel->driver->usage(vessel, out);
}

static double cpu_ms_of_any(const struct vessel *vessel)
{
    const struct cgroup *c = &((const struct native *)vessel)->cgroup;
    struct vessel_usage used = { 0 };

    if (vessel->driver == &driver_native && c->kind == CGROUP_V1)
        cgroup_v1_read_times(c, &used);
    else if (vessel->driver == &driver_native)
        cgroup_read(c, &used);
    return used.usage.cpu_user_ms + used.usage.cpu_system_ms;
}

static void weigh_any(const struct vessel *vessel, unsigned percent)
{
    if (vessel->driver == &driver_native)
        cgroup_weigh(&((const struct native *)vessel)->cgroup, percent);
}

static int pause_any(struct vessel *vessel, bool still, bool reclaim,
                     struct vial_error *err)
{
    struct native *n = native_of(vessel);

    if (vessel->driver != &driver_native)
        return fail(err, VIAL_E_UNSUPPORTED, "a vessel of level '%s' cannot be paused",
                    vessel->level);
    if (cgroup_freeze(&n->cgroup, still, err) < 0)
        return -1;
    n->paused = still;
    if (still && reclaim)
        cgroup_reclaim(&n->cgroup);
    return 0;
}

static int snapshot_any(struct vessel *vessel, const struct snapshot_order *order,
                        struct vial_error *err)
{
    if (vessel->driver != &driver_native)
        return fail(err, VIAL_E_UNSUPPORTED, "a vessel of level '%s' has no snapshots",
                    vessel->level);
    return snapshot_start(&native_of(vessel)->snapshot, order, err);
}

static size_t lend_any(const struct vessel *vessel, int *fds, uint32_t *which)
{
    *which = 0;
    return vessel->driver == &driver_native
               ? cgroup_lend(&((const struct native *)vessel)->cgroup, fds, which)
               : 0;
}

static void close_any(struct vessel *vessel)
{
    if (vessel->driver == &driver_native)
        native_close(vessel);
    else
        vessel->driver->close(vessel);
}

const struct driver driver_native = {
    .name = "native",
    .probe = native_probe,
    .open = open_vessel,
    .native_shared_open = native_shared_open,
    .open_supplied = open_supplied,
    .native_shared_close = native_shared_close,
    .kill = kill_any,
    .usage = usage_of_any,
    .usage_now = usage_of_any_now,
    .spent = spent_of_any,
    .weigh = weigh_any,
    .cpu_ms = cpu_ms_of_any,
    .lend = lend_any,
    .pause = pause_any,
    .snapshot = snapshot_any,
    .close = close_any,
    .sweep = sweep,
    .limit = limit_vessel,
    .zygote_open = zygote_open,
    .fork_into = zygote_fork_into,
    .zygote_close = zygote_close,
    .waits = true,
    .describe = native_describe,
    .overlays = true,
    .takes_image = true,
    .needs_programs_here = true,
};
