/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/child_script.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/name_rule.h"
#include "driver/native/host_tree.h"
#include "driver/native/idmap.h"
#include "driver/native/mounts.h"
#include "driver/native/root.h"
#include "driver/native/trial.h"
#include "plan/labels.h"
#include "wire/weaken.h"

#define NET_SLOT  2 /* where the twin leaves its network namespace */
#define JOIN_SLOT 4 /* where descriptors of cgroups come in */

#define STEPS      1024                /* of a script, without a caller's mounts */
#define ROOMY      (INT64_C(16) << 20) /* memory no child fills before its exec */
#define TEXT_BYTES (256 << 10)

#define CAP(name) (UINT64_C(1) << CAP_##name)
/* The capabilities that the guest needs to start and end programs of another user. */
#define GUEST_CAPS                                                                     \
    (CAP(SETUID) | CAP(SETGID) | CAP(SETPCAP) | CAP(KILL) | CAP(SYS_PTRACE))

/* What the guest must have for a vessel's root to have it (guest/confine.c). */
#define ROOT_CAPS                                                                      \
    (CAP(CHOWN) | CAP(DAC_OVERRIDE) | CAP(DAC_READ_SEARCH) | CAP(FOWNER) |             \
     CAP(FSETID) | CAP(SETFCAP) | CAP(NET_BIND_SERVICE) | CAP(AUDIT_WRITE))

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

/* v1: the child moves itself, by descriptors that come while it builds its root:
 * moving oneself needs no lock over all others. */
static void add_joining(struct script *s, const struct cgroup *c)
{
    for (unsigned i = 0; i < CGROUP_JOINED && c->kind == CGROUP_V1; i++)
        script_add(s, (struct step){ OP_JOIN, .slot = JOIN_SLOT + i });
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
        script_add(s, (struct step){ OP_SPLIT, .count = 2 });
    script_add(s, (struct step){ OP_UNSHARE, .spaces = CHILD_SCRIPT_SPACES });
    script_add(s, (struct step){ OP_LOOPBACK, .slot = has_twin(s) ? NET_SLOT : 0 });
}

/* Connections to addresses that a gate lets out must come to its guest. */
static void add_routes(struct script *s, const struct plan_gate *gate)
{
    for (size_t i = 0; i < gate->allow.count && !weaken("net"); i++) {
        struct step route = { OP_ROUTE };
        struct name_rule rule;

        if (name_rule_parse_any(gate->allow.items[i], &rule) || !rule.is_range)
            continue;
        memcpy(route.range.address, rule.range.first.bytes,
               sizeof(route.range.address));
        route.range.size = rule.range.first.v6 ? 16 : 4;
        route.range.bits = (uint8_t)rule.range.bits;
        route.flags = STEP_EXIST_OK;
        script_add(s, route);
    }
}

static void add_meeting(struct script *s)
{
    if (!has_twin(s))
        return;
    script_add(s, (struct step){ OP_MEET });
    script_add(s, (struct step){ OP_ENTER, .enter = { NET_SLOT, CLONE_NEWNET } });
}

void child_script_begin(struct script *s, const struct launch *l, int leash_fd)
{
    /* Its copy of our end would keep it waiting for us after our death, and its copy
     * of the leash the janitor. */
    script_add(s, (struct step){ OP_CLOSE, .fd = l->control[0] });
    script_add(s, (struct step){ OP_LEASH, .fd = leash_fd });
    add_network(s);
    script_add(s, (struct step){ OP_WAIT, .slot = ROOT_MOUNT_SLOT });
}

void child_script_ids(struct script *s, bool has_users)
{
    unsigned id = has_users ? 0 : IDMAP_PROGRAM;

    script_add(s, (struct step){ OP_SET_IDS, has_users ? 0 : STEP_KEEP_GROUPS,
                                 .ids = { id, id } });
}

static void add_start(struct script *s, const struct plan *plan, const struct launch *l)
{
    child_script_ids(s, launch_has_users(l));
    /* It is the calling thread's death that counts, so only the main thread's,
     * which lives as long as the process, will do. */
    if (syscall(SYS_gettid) == getpid())
        script_add(s, (struct step){ OP_PDEATH });
    if (!l->privileged)
        mounts_add_steps(s, plan, l->volumes);
}

/* The twin takes down the old root, for which the kernel waits for all processors,
 * while the child goes on with what needs no room made. */
static void add_detach_old_root(struct script *s, const struct root_options *o)
{
    struct step *split = NULL;
    size_t first = 0;

    if (has_twin(s))
        split = script_add(s, (struct step){ OP_SPLIT });
    first = s->count;
    root_detach(s, o);
    if (split)
        split->count = (unsigned)(s->count - first);
}

static void add_sealing(struct script *s, const struct plan *plan,
                        const struct host *host, const struct root_options *o)
{
    if (!weaken("cgroupns"))
        script_add(s, (struct step){ OP_UNSHARE, .spaces = CLONE_NEWCGROUP });
    add_detach_old_root(s, o);
    if (!weaken("uts"))
        script_add(s, (struct step){ OP_HOSTNAME, .name = plan->hostname });
    script_add(s, (struct step){ OP_KEYRING, STEP_OPTIONAL });
    if (!o->weak_procmask)
        root_mask(s, host);
    add_meeting(s);
    root_seal(s, o); /* before a mount could lie over what it masks with */
    root_attach_mounts(s, plan, o);
}

/* Lists of vessels know it by that name (driver/list.c). */
static void add_exec(struct script *s, const struct plan *plan, int fd)
{
    auto_str struct str name = { 0 };
    struct step exec = { OP_EXEC, .exec = { .fd = fd } };

    if (plan->container.prefix)
        labels_name(&name, plan->container.prefix, plan);
    if (name.len && str_ok(&name))
        exec.exec.name = script_text(s, "%s", name.data);
#ifdef VIAL_WEAKEN
    if (getenv("VIAL_TEST_WEAKEN")) /* NOLINT(concurrency-mt-unsafe) */
        exec.exec.env = (const char *const *)environ;
#endif
    script_add(s, exec);
}

static uint64_t guest_caps(const struct plan *plan, bool has_users)
{
    uint64_t caps = GUEST_CAPS;

    if (plan->root.as_root || plan->root.sudo)
        caps |= ROOT_CAPS;
    if (plan->root.sudo) /* without no_new_privs, a filter takes that */
        caps |= CAP(SYS_ADMIN);
    return has_users ? caps : 0;
}

static void add_end(struct script *s, const struct plan *plan, const struct launch *l)
{
    /* Rights that the programs shall not have, the guest must not have either. */
    if (!weaken("caps") && !weaken("no_new_privs"))
        script_add(s, (struct step){ OP_BOUND, plan->root.sudo ? STEP_NEW_PRIVS : 0,
                                     .caps = guest_caps(plan, launch_has_users(l)) });
    script_add(s, (struct step){ OP_STREAM, .fd = l->stream[1] });
    add_exec(s, plan, l->exec_fd);
}

static struct root_options options_of_root(const struct launch *l,
                                           const struct plan *plan)
{
    bool weak_uid = weaken("uid");

    return (struct root_options){
        .uid = weak_uid ? 0 : l->uid,
        .gid = weak_uid ? 0 : l->gid,
        .image = l->image,
        .image_slot = l->privileged ? ROOT_MOUNT_SLOT + (unsigned)plan->mount_count +
                                          (l->own_devices ? 1u : 0u)
                                    : ROOT_ROOTFS_SLOT,
        .image_mounted = l->privileged,
        .writable = plan->root.writable,
        .authority = l->authority,
        .bundle = l->bundle,
        .no_usr_overlay = (l->lacks & LACKS_USR_OVERLAY) || weaken("overlay"),
        .no_etc_overlay = (l->lacks & LACKS_ETC_OVERLAY) || weaken("overlay"),
        .own_devices = l->own_devices,
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
        .weak_shm = weaken("shm")
    };
}

int child_script_root(struct script *s, const struct plan *plan, const struct launch *l,
                      struct vial_error *err)
{
    struct root_options o = options_of_root(l, plan);

    if (plan->rootfs && judge_rootfs(plan->rootfs, &o, err) < 0)
        return -1;
    add_start(s, plan, l);
    root_build(s, l->host, plan, &o);
    script_add(s, (struct step){ OP_WAIT, .slot = JOIN_SLOT });
    return s->failed ? fail_memory(err) : 0;
}

int child_script_rest(struct script *s, const struct plan *plan, const struct cgroup *c,
                      const struct launch *l, struct vial_error *err)
{
    struct root_options o = options_of_root(l, plan);

    o.gate = plan->network == NETWORK_GATE;
    add_joining(s, c);
    add_sealing(s, plan, l->host, &o);
    add_routes(s, &plan->gate);
    add_end(s, plan, l);
    return s->failed ? fail_memory(err) : 0;
}

/* A step per directory on the way to a mount's target, with its path as text. A child
 * that ran out of its vessel's memory would take all with it that live in its own. */
struct script *child_script_new(const struct plan *plan)
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
