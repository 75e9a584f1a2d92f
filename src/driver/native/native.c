/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/path.h"
#include "base/sys.h"
#include "driver/meter.h"
#include "driver/native/cgroup.h"
#include "driver/native/confine.h"
#include "driver/native/idmap.h"
#include "driver/native/janitor.h"
#include "driver/native/launch.h"
#include "driver/native/mounts.h"
#include "driver/native/remains.h"
#include "driver/native/root.h"
#include "driver/native/seccomp.h"
#include "driver/native/supplies.h"
#include "driver/native/tier.h"
#include "driver/native/zygote.h"
#include "wire/weaken.h"

#define NET_SLOT      2    /* where the twin leaves its network namespace */
#define JOIN_SLOT     4    /* where descriptors of cgroups come in */
#define SWEEP_A_FEW   8    /* foreign cgroups looked at on the way of an open */
#define CLOSE_WAIT_MS 2000 /* for the kernel to empty a killed pid namespace */

#define STEPS      1024                /* of a script, without a caller's mounts */
#define ROOMY      (INT64_C(16) << 20) /* memory no child fills before its exec */
#define TEXT_BYTES (256 << 10)
#define LIGHT      (INT64_C(64) << 20) /* memory that may be given back a little later */

#define CAP(name) (UINT64_C(1) << CAP_##name)
/* What the guest needs to start and end programs of another user. */
#define GUEST_CAPS                                                                     \
    (CAP(SETUID) | CAP(SETGID) | CAP(SETPCAP) | CAP(KILL) | CAP(SYS_PTRACE))

struct native {
    struct vessel vessel;
    struct cgroup cgroup;
    struct janitor janitor;
    struct supplies *supplies; /* or NULL */
    pid_t pid;                 /* 0: none, or reaped */
    struct meter meter;        /* where there is no cgroup */
    int remains_fd;
    bool killed;
    bool only_ours; /* nothing of the caller's is mounted in it */
    bool is_light;  /* little memory can be in its file systems */
};

static struct native *native_of(struct vessel *vessel)
{
    return (struct native *)vessel;
}

struct space {
    const char *layer;
    uint64_t flag;
};

/* The network namespace takes as long as the others and the mounts together: the
 * child's twin makes it meanwhile, or, where it can have none, the child itself, while
 * the parent gets ready. The cgroup namespace is made by the child as well, once it is
 * in its cgroup. */
#define OF_THE_CHILD CLONE_NEWNET

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
    if (plan->network != NETWORK_NONE)
        return refuse(err, "a network", "use '--driver docker', or '--network none'");
    return mounts_check(plan, err);
}

/* A link where we mount would be followed by programs, if not by us: such a
 * root is refused outright. */
static int judge_rootfs(const char *dir, struct root_options *o, struct vial_error *err)
{
    static const char *const ours[] = { "proc", "dev", "sys", "tmp",      "work",
                                        "etc",  "var", "run", "workspace" };
    auto_fd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)fail_sys(err, "open rootfs '%s'", dir);
        return fail_as(err, VIAL_E_MOUNT);
    }
    o->rootfs_dev = st.st_dev;
    o->rootfs_ino = st.st_ino;
    for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++) {
        if (fstatat(fd, ours[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
            return fail(err, VIAL_E_MOUNT, "rootfs '%s': '/%s' is not a directory", dir,
                        ours[i]);
    }
    return 0;
}

/* v1: the child moves itself, by descriptors that come while it builds its root;
 * "0" is whoever writes, and moving oneself needs no lock over all others. */
static void add_joining(struct script *s, const struct cgroup *c)
{
    for (size_t i = 0; i < CGROUP_DIRS && c->kind == CGROUP_V1; i++)
        script_path(s, OP_WRITE_FD, "0", NULL, 0)->fd =
            SCRIPT_SLOT + JOIN_SLOT + (int)i;
}

/* Where a directory is missing its number is filled with a neighbour's: joining
 * twice is joining once. */
static int send_joining(const struct launch *l, const struct cgroup *c,
                        struct vial_error *err)
{
    int fds[CGROUP_DIRS];

    for (size_t i = 0; i < CGROUP_DIRS; i++)
        fds[i] = c->dirs[i].join_fd >= 0 ? c->dirs[i].join_fd : c->dirs[0].join_fd;
    if (c->kind != CGROUP_V1 || fds[0] < 0) /* born in it, or not allowed to make any */
        return launch_send(l, NULL, 0, err);
    return launch_send(l, fds, CGROUP_DIRS, err);
}

/* Nobody waits for a vessel that is made ahead, and a twin is one process more. */
static bool has_twin(const struct script *s)
{
    return RAW_SHARES && s->sharing && !s->unhurried && !weaken("net");
}

static void add_network(struct script *s)
{
    if (weaken("net"))
        return;
    if (has_twin(s))
        script_add(s, OP_SPLIT)->x = 2;
    script_add(s, OP_UNSHARE)->x = OF_THE_CHILD;
    script_add(s, OP_LOOPBACK)->slot = has_twin(s) ? NET_SLOT : 0;
}

static void add_meeting(struct script *s)
{
    struct step *enter = NULL;

    if (!has_twin(s))
        return;
    script_add(s, OP_MEET);
    enter = script_add(s, OP_ENTER);
    enter->fd = SCRIPT_SLOT + NET_SLOT;
    enter->x = CLONE_NEWNET;
}

/* What the child can do while it does not know the rest yet. */
static void add_beginning(struct script *s, const struct launch *l, int leash_fd)
{
    /* Its copy of our end would keep it waiting for us after our death, and its copy
     * of the leash the janitor. */
    script_add(s, OP_CLOSE)->fd = l->control[0];
    script_add(s, OP_LEASH)->fd = leash_fd;
    add_network(s);
    script_add(s, OP_WAIT)->x = ROOT_MOUNT_SLOT;
}

static void add_start(struct script *s, const struct plan *plan, bool privileged)
{
    struct step *ids = script_add(s, OP_SET_IDS);

    ids->x = ids->y = privileged ? 0 : IDMAP_PROGRAM;
    ids->flags = privileged ? 0 : STEP_KEEP_GROUPS;
    /* It is the calling thread's death that counts, so only the main thread's,
     * which lives as long as the process, will do. */
    if (syscall(SYS_gettid) == getpid())
        script_add(s, OP_PDEATH);
    if (!privileged)
        mounts_add_steps(s, plan);
}

/* The twin takes down the old root, for which the kernel waits for all processors,
 * while the child goes on with what needs no room made. */
static void add_farewell(struct script *s, const struct root_options *o)
{
    struct step *split = NULL;
    size_t first = 0;

    if (has_twin(s))
        split = script_add(s, OP_SPLIT);
    first = s->count;
    root_detach(s, o);
    if (split)
        split->x = s->count - first;
}

static void add_sealing(struct script *s, const struct plan *plan,
                        const struct root_options *o)
{
    if (!weaken("cgroupns"))
        script_path(s, OP_UNSHARE, NULL, NULL, CLONE_NEWCGROUP);
    add_farewell(s, o);
    if (!weaken("uts"))
        script_path(s, OP_HOSTNAME, plan->hostname, NULL, 0);
    script_add(s, OP_KEYRING)->flags = STEP_OPTIONAL;
    root_mask(s, o);
    add_meeting(s);
    root_seal(s, o); /* before a mount could lie over what it masks with */
    root_attach_mounts(s, plan, o);
}

static void add_end(struct script *s, const struct launch *l)
{
    /* What the programs shall not have, the guest must not have either. */
    if (!weaken("caps") && !weaken("no_new_privs"))
        script_add(s, OP_BOUND)->x = l->privileged ? GUEST_CAPS : 0;
    script_add(s, OP_STREAM)->fd = l->stream[1];
    script_add(s, OP_EXEC)->fd = l->exec_fd;
#ifdef VIAL_WEAKEN
    if (getenv("VIAL_TEST_WEAKEN")) /* NOLINT(concurrency-mt-unsafe) */
        s->steps[s->count - 1].x = (uint64_t)(uintptr_t)environ;
#endif
}

static struct root_options options_of_root(void)
{
    uint32_t id = weaken("uid") ? 0 : IDMAP_PROGRAM;

    return (struct root_options){ .uid = id,
                                  .gid = id,
                                  .shows = host_shows,
                                  .weak_overlay = weaken("overlay"),
                                  .weak_ro = weaken("ro"),
                                  .weak_pid = weaken("pid"),
                                  .weak_dev = weaken("dev"),
                                  .weak_disk = weaken("disk"),
                                  .weak_root = weaken("root"),
                                  .weak_net = weaken("net"),
                                  .weak_procmask = weaken("procmask"),
                                  .weak_user = weaken("user"),
                                  .weak_nosuid = weaken("nosuid"),
                                  .weak_work = weaken("work"),
                                  .weak_shm = weaken("shm") };
}

/* Up to the next word of ours, which comes when the rest is written. */
static int write_root(struct script *s, const struct plan *plan, const struct launch *l,
                      struct vial_error *err)
{
    auto_host struct host host = { 0 };
    struct root_options o = options_of_root();

    if (s->whole)
        return 0;
    if (plan->rootfs ? judge_rootfs(plan->rootfs, &o, err) < 0
                     : host_read(&host, err) < 0)
        return -1;
    add_start(s, plan, l->privileged);
    root_build(s, &host, plan, &o);
    script_add(s, OP_WAIT)->x = JOIN_SLOT;
    return s->failed ? fail_memory(err) : 0;
}

/* While the child builds its root. */
static int write_rest(struct script *s, const struct plan *plan, const struct cgroup *c,
                      const struct launch *l, struct vial_error *err)
{
    struct root_options o = options_of_root();

    if (s->whole)
        return 0;
    add_joining(s, c);
    add_sealing(s, plan, &o);
    add_end(s, l);
    s->whole = !s->failed;
    return s->failed ? fail_memory(err) : 0;
}

static void add_layers(struct native *n, const struct launch *l)
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
    if (!l->lost_overlay && !weaken("overlay"))
        strv_push(layers, "overlay");
}

static const char *limits_by(const struct cgroup *c)
{
    if (c->kind == CGROUP_NONE || !c->complete)
        return "rlimit";
    return c->kind == CGROUP_V2 ? "cgroup2" : "cgroup1";
}

static int fill_filters(struct native *n, const struct plan *plan, int guest_fd,
                        struct vial_error *err)
{
    const char *name = plan->seccomp ? plan->seccomp : "default";

    return n->supplies ? filters_fill(&n->supplies->filters, &n->vessel.jail, guest_fd,
                                      name, err)
                       : seccomp_fill(&n->vessel.jail, guest_fd, name, err);
}

/* What the parent does while the child builds the root. */
static int prepare_jail(struct native *n, const struct plan *plan, int guest_fd,
                        struct vial_error *err)
{
    int abi = weaken("landlock") ? 0 : native_landlock_abi();
    struct confine_options o = { .limits_by_rlimit = n->cgroup.kind == CGROUP_NONE,
                                 .landlock = abi > 0 };

    if (abi < 0)
        return fail_sys_rc(err, abi, "ask for Landlock");

    if (n->cgroup.counter_fds[0] < 0) /* or it will be joined again */
        cgroup_joined(&n->cgroup);
    if (confine_fill(&n->vessel.jail, plan, &o, err) < 0)
        return -1;
    if (!weaken("seccomp") && fill_filters(n, plan, guest_fd, err) < 0)
        return -1;
    if (!n->supplies)
        (void)cgroup_sweep(&n->cgroup, SWEEP_A_FEW);
    return 0;
}

static bool is_v2(const struct native *n)
{
    if (n->supplies && n->supplies->base.kind != CGROUP_NONE)
        return n->supplies->base.kind == CGROUP_V2;
    return cgroup_is_v2();
}

/* Where a janitor serves all, below its base; else with one of its own, which is there
 * before the group is. PIDFD is the guest, or -1: it is not born yet. */
static int have_cgroup(struct native *n, const struct plan *plan, int pidfd,
                       struct vial_error *err)
{
    bool tended = supplies_tend(n->supplies);

    if (weaken("cgroup") || (tended && supplies_group(n->supplies, n->vessel.id,
                                                      &plan->limits, &n->cgroup)))
        return 0;
    if (cgroup_find(n->vessel.id, &n->cgroup, err) < 0)
        return -1;
    if (n->cgroup.kind == CGROUP_V2 && pidfd >= 0)
        return fail(err, VIAL_E_OPEN, "find our own cgroup: it has just changed");
    if (n->cgroup.kind != CGROUP_NONE &&
        !(tended && supplies_reach(n->supplies, &n->cgroup)))
        janitor_start(&n->janitor, &n->cgroup, pidfd);
    return cgroup_create(&n->cgroup, &plan->limits, err);
}

static int join(struct native *n, const struct plan *plan, struct script *s,
                const struct launch *l, struct vial_error *err)
{
    /* v2 has it since before the child, who was born in it. */
    if (!is_v2(n) && have_cgroup(n, plan, l->pidfd, err) < 0)
        return -1;
    if (write_rest(s, plan, &n->cgroup, l, err) < 0)
        return -1;
    return send_joining(l, &n->cgroup, err);
}

static void take_launch(struct native *n, struct launch *l)
{
    n->vessel.stream_fd = fd_take(&l->stream[0]);
    n->vessel.death_fd = fd_take(&l->pidfd);
    n->vessel.layered = l->layer_fd[1] >= 0;
    n->vessel.layer_fd = fd_take(&l->layer_fd[0]);
    n->vessel.merged_fd = fd_take(&l->layer_fd[1]);
    n->vessel.layer_id = l->privileged ? idmap_guest_id(l->pid) + 1 : getuid();
    n->pid = l->pid;
    l->pid = 0;
    add_layers(n, l);
}

/* A step per directory on the way to a mount's target, with its path as text. A child
 * that ran out of its vessel's memory would take all with it that live in its own. */
static struct script *make_script(const struct plan *plan)
{
    int64_t limit = plan->limits.memory_bytes;
    size_t steps = STEPS;
    size_t text = TEXT_BYTES;

    for (size_t i = 0; i < plan->mount_count; i++) {
        size_t len = strlen(plan->mounts[i].target);

        steps += len + 4;
        text += len * len + 4;
    }
    return script_new(steps, text, !limit || limit >= ROOMY);
}

static struct script *have_script(const struct native *n, const struct plan *plan)
{
    struct script *kept =
        n->supplies && n->only_ours ? scripts_take(&n->supplies->scripts, plan) : NULL;

    return kept ? kept : make_script(plan);
}

static int begin(struct native *n, const struct plan *plan, struct script *script,
                 struct launch *l, int guest_fd, struct vial_error *err)
{
    int into_fd = -1;

    if (is_v2(n) && have_cgroup(n, plan, -1, err) < 0)
        return -1;
    if (n->cgroup.kind == CGROUP_V2)
        into_fd = n->cgroup.dirs[0].fd;
    if (n->supplies && n->supplies->guest_fd >= 0)
        guest_fd = n->supplies->guest_fd;
    if (launch_prepare(l, guest_fd, err) < 0)
        return -1;
    script->unhurried = n->supplies != NULL;
    script->own_pids = !weaken("pid");
    if (script->whole)
        script_rebind(script, &(struct script_fds){ l->control[0], n->janitor.leash_fd,
                                                    l->stream[1], l->exec_fd });
    else
        add_beginning(script, l, n->janitor.leash_fd);
    return launch_begin(l, script, wanted_spaces() & ~(uint64_t)OF_THE_CHILD, into_fd,
                        err);
}

static int is_privileged(const struct native *n)
{
    if (!n->supplies || n->supplies->whole_map < 0)
        return idmap_privileged();
    return geteuid() == 0 ? n->supplies->whole_map : 0;
}

/* *REFUSED: this host does not allow namespaces. */
static int set_up(struct native *n, const struct plan *plan, int guest_fd,
                  bool *refused, struct vial_error *err)
{
    auto_script struct script *script = have_script(n, plan);
    auto_launch struct launch launch = { .control = { -1, -1 },
                                         .stream = { -1, -1 },
                                         .exec_fd = -1,
                                         .pidfd = -1,
                                         .layer_fd = { -1, -1 } };
    int privileged = is_privileged(n);
    int dumpable = prctl(PR_GET_DUMPABLE);
    bool failed = false;

    if (!script)
        return fail_memory(err);
    if (privileged < 0)
        return fail_sys_rc(err, privileged, "read our own id map");
    launch.privileged = privileged;

    failed = begin(n, plan, script, &launch, guest_fd, err) < 0 ||
             write_root(script, plan, &launch, err) < 0 ||
             launch_settle(&launch, script, plan, err) < 0 ||
             launch_copy(&launch, guest_fd, err) < 0 ||
             join(n, plan, script, &launch, err) < 0 ||
             prepare_jail(n, plan, guest_fd, err) < 0 ||
             launch_finish(&launch, script, err) < 0;
    /* The child's change of ids made the memory it shared with us secret. Two opens at
     * once may leave it so, which is the safe side. */
    if (dumpable == 1)
        (void)prctl(PR_SET_DUMPABLE, 1);
    if (failed) {
        *refused = launch.refused;
        return -1;
    }
    /* One without steps for joining a group is none for a vessel that has any. */
    if (n->supplies && n->only_ours && n->cgroup.kind != CGROUP_NONE)
        scripts_give(&n->supplies->scripts, ptr_take(&script), plan);
    n->vessel.limits_by = limits_by(&n->cgroup);
    take_launch(n, &launch);
    return strv_ok(&n->vessel.layers) ? 0 : fail_memory(err);
}

static void kill_vessel(struct vessel *vessel)
{
    struct native *n = native_of(vessel);

    if (vessel->death_fd < 0)
        return;
    if (n->cgroup.kind == CGROUP_NONE && n->pid > 0 && !n->killed)
        meter_look(&n->meter, n->pid); /* what dies with it is counted by nobody */
    if (n->only_ours && n->remains_fd < 0 && !n->killed)
        n->remains_fd = remains_take(vessel->death_fd);
    n->killed = true;
    (void)sys_pidfd_kill(vessel->death_fd, SIGKILL);
}

static double ms_of(const struct timeval *t)
{
    return (double)t->tv_sec * 1000.0 + (double)t->tv_usec / 1000.0;
}

/* A killed pid namespace empties itself; its first process can be reaped once
 * the last of the others is gone. */
static void reap(struct native *n)
{
    struct pollfd dead = { .fd = n->vessel.death_fd, .events = POLLIN };
    struct rusage used = { 0 };
    siginfo_t info;

    if (n->pid <= 0 || poll(&dead, 1, CLOSE_WAIT_MS) != 1 ||
        syscall(SYS_waitid, P_PIDFD, n->vessel.death_fd, &info,
                WEXITED | WNOHANG | __WALL, &used) < 0)
        return;
    n->pid = 0;
    meter_add(&n->meter, ms_of(&used.ru_utime), ms_of(&used.ru_stime));
}

static void usage_of(struct vessel *vessel, struct vessel_usage *out)
{
    struct native *n = native_of(vessel);

    *out = (struct vessel_usage){ 0 };
    if (n->cgroup.kind != CGROUP_NONE) {
        cgroup_read(&n->cgroup, out);
        n->is_light =
            out->usage.memory_peak_bytes > 0 && out->usage.memory_peak_bytes <= LIGHT;
        cgroup_joined(&n->cgroup); /* whoever wanted to is in it by now */
    } else {
        if (n->killed)
            reap(n);
        else if (n->pid > 0)
            meter_look(&n->meter, n->pid);
        meter_report(&n->meter, out);
    }
    /* Nothing but its own loopback exists in there. */
    out->net_counted = true;
}

static void spent_of(struct vessel *vessel, struct vessel_usage *out)
{
    struct native *n = native_of(vessel);

    if (n->cgroup.kind != CGROUP_V1) {
        usage_of(vessel, out);
        return;
    }
    *out = (struct vessel_usage){ 0 };
    cgroup_v1_read_times(&n->cgroup, out);
    cgroup_joined(&n->cgroup);
}

/* What cannot be removed yet is the janitor's to wait for: someone who is stuck in the
 * kernel, or on the way out. */
static void leave_cgroup(struct native *n)
{
    bool gone = cgroup_unlink(&n->cgroup) && n->pid == 0;

    if (!gone && n->cgroup.kind != CGROUP_NONE && n->janitor.leash_fd < 0)
        janitor_start(&n->janitor, &n->cgroup, n->vessel.death_fd);
    cgroup_close(&n->cgroup);
    if (gone)
        janitor_call_off(&n->janitor); /* it ends while we close the rest */
    else
        janitor_release(&n->janitor);
}

static void close_vessel(struct vessel *vessel)
{
    struct native *n = native_of(vessel);

    kill_vessel(vessel);
    reap(n);
    if (n->is_light && !n->supplies)
        remains_leave(&n->remains_fd);
    auto_fd_(&n->remains_fd);
    leave_cgroup(n);
    auto_fd_(&vessel->stream_fd);
    auto_fd_(&vessel->death_fd);
    auto_fd_(&vessel->event_fd);
    auto_fd_(&vessel->layer_fd);
    auto_fd_(&vessel->merged_fd);
    jail_done(&vessel->jail);
    strv_done(&vessel->layers);
    janitor_dismiss(&n->janitor);
    free(n);
}

static int open_supplied(struct supplies *supplies, const struct plan *plan,
                         int guest_fd, struct vessel **out, struct vial_error *err)
{
    struct native *n = NULL;
    struct vial_error why = { 0 };
    bool refused = false;

    if (check_plan(plan, err) < 0)
        return -1;
    n = calloc(1, sizeof(*n));
    if (!n)
        return fail_memory(err);
    n->vessel = (struct vessel){ .driver = &driver_native,
                                 .stream_fd = -1,
                                 .death_fd = -1,
                                 .event_fd = -1,
                                 .layer_fd = -1,
                                 .merged_fd = -1,
                                 .level = "namespaces",
                                 .limits_by = "none",
                                 .path = PATH_SEARCH };
    cgroup_forget(&n->cgroup);
    n->janitor = JANITOR_NONE;
    n->remains_fd = -1;
    n->supplies = supplies;
    n->only_ours = plan->mount_count == 0 && !plan->rootfs;
    n->meter.memory_limit = plan->limits.memory_bytes;
    sys_make_id('v', n->vessel.id);
    if (set_up(n, plan, guest_fd, &refused, &why) < 0) {
        close_vessel(&n->vessel);
        /* Named by its level; whoever requires more refuses it. */
        if (refused && native_landlock_abi() > 0)
            return tier_open(plan, guest_fd, out, err);
        if (err)
            *err = why;
        return -1;
    }
    *out = &n->vessel;
    return 0;
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
        kill_vessel(vessel);
    else
        vessel->driver->kill(vessel);
}

static void usage_of_any(struct vessel *vessel, struct vessel_usage *out)
{
    if (vessel->driver == &driver_native)
        usage_of(vessel, out);
    else
        vessel->driver->usage(vessel, out);
}

static void spent_of_any(struct vessel *vessel, struct vessel_usage *out)
{
    if (vessel->driver == &driver_native)
        spent_of(vessel, out);
    else
        vessel->driver->usage(vessel, out);
}

static void close_any(struct vessel *vessel)
{
    if (vessel->driver == &driver_native)
        close_vessel(vessel);
    else
        vessel->driver->close(vessel);
}

const struct driver driver_native = {
    .name = "native",
    .probe = native_probe,
    .open = open_vessel,
    .supplies_open = supplies_open,
    .open_supplied = open_supplied,
    .supplies_close = supplies_close,
    .kill = kill_any,
    .usage = usage_of_any,
    .spent = spent_of_any,
    .close = close_any,
    .sweep = sweep,
    .limit = limit_vessel,
    .zygote_open = zygote_open,
    .hatch = zygote_hatch,
    .zygote_close = zygote_close,
    .waits = true,
    .describe = native_describe,
    .overlays = true,
    .needs_programs_here = true,
};
