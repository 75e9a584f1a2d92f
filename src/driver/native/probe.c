/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/subids.h"
#include "driver/native/cgroup.h"
#include "driver/native/idmap.h"
#include "driver/native/native.h"
#include "driver/native/trial.h"

/* A switch of some distribution that forbids user namespaces. */
struct knob {
    const char *path, *value; /* forbids while it has this value */
    const char *reason, *fix;
    const char *file; /* the fix is good where this is, or NULL: everywhere */
};

#define APPARMOR_KNOB "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define APPARMOR_WHY  "kernel.apparmor_restrict_unprivileged_userns is 1"
#define APPARMOR_FILE "/etc/apparmor.d/vial"

static const struct knob knobs[] = {
    { "/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0",
      "sudo sysctl -w user.max_user_namespaces=15000 (RHEL; to keep it: "
      "echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/90-userns.conf)" },
    { "/proc/sys/user/max_net_namespaces", "0", "user.max_net_namespaces is 0",
      "sudo sysctl -w user.max_net_namespaces=15000" },
    { "/proc/sys/kernel/unprivileged_userns_clone", "0",
      "kernel.unprivileged_userns_clone is 0",
      "sudo sysctl -w kernel.unprivileged_userns_clone=1 (Debian)" },
    { APPARMOR_KNOB, "1", APPARMOR_WHY, "sudo apparmor_parser -r " APPARMOR_FILE,
      APPARMOR_FILE },
    { APPARMOR_KNOB, "1", APPARMOR_WHY,
      "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or 'sudo "
      "make install': the vial there has a profile that allows it user namespaces",
      NULL },
};

static const struct knob *find_knob(void)
{
    for (size_t i = 0; i < sizeof(knobs) / sizeof(*knobs); i++) {
        char text[32];

        if (io_read_at(AT_FDCWD, knobs[i].path, text, sizeof(text)) > 0 &&
            strcmp(text, knobs[i].value) == 0 &&
            (!knobs[i].file || access(knobs[i].file, F_OK) == 0))
            return &knobs[i];
    }
    return NULL;
}

bool fixes_forbidden(void)
{
    return find_knob() != NULL;
}

/* Where the one who reads a remedy has to act. */
static const struct place {
    const char *variable; /* is set, or NULL */
    const char *path;     /* or this is there */
    const char *rights;   /* all that namespaces take */
    const char *ids;      /* for a root that may not map ids */
} places[] = {
    { "KUBERNETES_SERVICE_HOST", "/var/run/secrets/kubernetes.io",
      "in the pod 'hostUsers: false', in the container's securityContext 'procMount: "
      "Unmasked' and 'seccompProfile: {type: Localhost, localhostProfile: vial.json}' "
      "(contrib/container/seccomp.json), or Unconfined",
      "in the container's securityContext 'runAsUser: 1000', or 'capabilities: {add: "
      "[SETFCAP]}'" },
    { NULL, "/.dockerenv",
      "start the container with '--security-opt seccomp=contrib/container/seccomp.json "
      "--security-opt systempaths=unconfined'",
      "start the container with '--user 1000', or with '--cap-add SETFCAP'" },
    { NULL, "/run/.containerenv",
      "start the container with '--security-opt seccomp=contrib/container/seccomp.json "
      "--security-opt unmask=ALL'",
      "start the container with '--user 1000', or with '--cap-add SETFCAP'" },
};

/* NULL: in no container. */
static const struct place *find_place(void)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        const struct place *p = &places[i];

        /* NOLINTNEXTLINE(concurrency-mt-unsafe): read only */
        if ((p->variable && getenv(p->variable)) || access(p->path, F_OK) == 0)
            return p;
    }
    return NULL;
}

static const char *fix_of(enum trial_need need)
{
    const struct place *place = find_place();

    if (place)
        return need == NEED_IDS ? place->ids : place->rights;
    if (need == NEED_IDS)
        return "run vial as another user than root, or give root CAP_SETFCAP";
    if (need == NEED_PROC)
        return "show all of /proc: 'grep /proc/ /proc/self/mounts' lists what lies "
               "over parts of it";
    return "run vial as root, or enable CONFIG_USER_NS in the kernel; a chroot may make "
           "none (enter it by pivot_root, as 'systemd-nspawn' does)";
}

/* Why vessels have no namespaces here, as NEED was refused with ERROR, and the fix: of
 * this host, or of the container or pod that we are in. Sizes as in struct layer. */
static void fixes_user(int error, enum trial_need need, char reason[160], char fix[320])
{
    static const char *const needs[] = {
        [NEED_USER] = "user namespaces are refused",
        [NEED_IDS] = "the ids of a user namespace cannot be mapped",
        [NEED_NETWORK] = "network namespaces are refused",
        [NEED_PROC] = "/proc cannot be mounted in a namespace",
        [NEED_TMPFS] = "a tmpfs cannot be mounted in a namespace",
    };
    const struct knob *knob = find_knob();

    if (knob) {
        (void)snprintf(reason, 160, "%s", knob->reason);
        (void)snprintf(fix, 320, "%s", knob->fix);
        return;
    }
    (void)snprintf(reason, 160, "%s: %s", needs[need],
                   strerror(error)); /* NOLINT(concurrency-mt-unsafe) */
    (void)snprintf(fix, 320, "%s", fix_of(need));
}

int fixes_clone(int error, struct vial_error *err)
{
    char reason[160];
    char fix[320];

    if (error == ENOMEM || error == EAGAIN)
        return fail_remedy(err,
                           "the host is out of memory or processes; try again later");
    fixes_user(error, NEED_USER, reason, fix);
    return fail_remedy(err, "%s", fix);
}

int fixes_step(const struct step *step, int error, struct vial_error *err)
{
    if (step->op == OP_MOUNT && strcmp(step->mount.type, "proc") == 0 && error == EPERM)
        return fail_remedy(err, "%s", fix_of(NEED_PROC));
    if (step->op == OP_MOUNT && step->mount.data &&
        strstr(step->mount.data, "upperdir=") && error == EINVAL)
        return fail_remedy(err,
                           "the directory cannot lie under an overlay, as it is one "
                           "or has mounts in it: copy it elsewhere");
    if (step->op == OP_ATTACH && error == ENOENT)
        return fail_remedy(err, "the target's directory is read-only and has no such "
                                "entry: choose another target, such as /mnt/name");
    if (step->op == OP_ATTACH && error == ELOOP)
        return fail_remedy(err, "the target is or lies behind a symbolic link of the "
                                "root: choose another target");
    if (error == ENOSPC || error == ENOMEM)
        return fail_remedy(err, "the host is out of memory or of mounts");
    return fail_remedy(err, "run 'vial doctor' to see what this host lacks");
}

/* The fix for limits by cgroup. */
static const char *fixes_cgroup(void)
{
    return geteuid() == 0
               ? "mount the cgroup file system writable (in Docker: --privileged or "
                 "--cgroupns=private with a writable /sys/fs/cgroup)"
               : "run below a delegated cgroup: systemd-run --user --scope -p Delegate=yes "
                 "vial …, or as root";
}

int native_landlock_abi(void)
{
    long abi =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    if (abi >= 0)
        return (int)abi;
    return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
}

static struct layer *add(struct caps *c, const char *name, bool available)
{
    struct layer *layer = &c->layers[c->layer_count++];

    layer->name = name;
    layer->available = available;
    return layer;
}

/* All or none: no kernel that has user namespaces is built without the others. */
static void add_namespaces(struct caps *c, const struct trial *trial)
{
    int error = trial->namespaces;
    static const char *const names[] = { "user", "pid", "mount", "net",
                                         "ipc",  "uts", "cgroup" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct layer *layer = add(c, names[i], error == 0);

        if (error != 0)
            fixes_user(error, trial->need, layer->reason, layer->fix);
    }
}

static void add_walls(struct caps *c)
{
    unsigned action = SECCOMP_RET_KILL_PROCESS;
    bool seccomp = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 ||
                   errno == EPERM;
    int abi = native_landlock_abi();
    struct layer *layer = add(c, "seccomp", seccomp);

    if (!seccomp)
        (void)snprintf(layer->reason, sizeof(layer->reason),
                       "the kernel is built without CONFIG_SECCOMP_FILTER");
    layer = add(c, "landlock", abi > 0);
    if (abi > 0) {
        (void)snprintf(layer->reason, sizeof(layer->reason), "ABI %d", abi);
    } else {
        (void)snprintf(layer->reason, sizeof(layer->reason),
                       "the kernel has it not enabled");
        (void)snprintf(
            layer->fix, sizeof(layer->fix),
            "add 'landlock' to the kernel's lsm= parameter (kernel 5.13 or later)");
    }
    (void)add(c, "no_new_privs", true);
    (void)add(c, "caps", true);
}

static bool knows_overlay(void)
{
    char text[8192];

    return io_read_at(AT_FDCWD, "/proc/filesystems", text, sizeof(text)) > 0 &&
           strstr(text, "overlay");
}

static void add_overlay(struct caps *c, const struct trial *trial)
{
    bool usr = !trial->namespaces && !(trial->lacks & LACKS_USR_OVERLAY);
    bool etc = usr && !(trial->lacks & LACKS_ETC_OVERLAY);
    struct layer *layer = add(c, "overlay", usr);

    if (etc)
        return;
    if (trial->namespaces || knows_overlay()) {
        (void)snprintf(layer->reason, sizeof(layer->reason),
                       trial->namespaces
                           ? "there are no namespaces to mount it in"
                           : "it cannot be mounted over '%s' in a namespace",
                       usr ? "/etc" : "/usr");
        return;
    }
    (void)snprintf(layer->reason, sizeof(layer->reason), "the module is not loaded");
    (void)snprintf(layer->fix, sizeof(layer->fix), "sudo modprobe overlay");
}

static void add_root(struct caps *c, const struct trial *trial)
{
    struct layer *layer = add(c, "ro_root", !trial->namespaces);

    if (trial->namespaces)
        (void)snprintf(layer->reason, sizeof(layer->reason),
                       "there are no namespaces to have a root of its own in");
}

static void add_limits(struct caps *c)
{
    char why[160] = "";
    enum cgroup_kind kind = cgroup_probe(why);
    struct layer *layer = add(c, "limits", kind != CGROUP_NONE);

    c->limits_by = kind == CGROUP_V2   ? "cgroup2"
                   : kind == CGROUP_V1 ? "cgroup1"
                                       : "rlimit";
    (void)snprintf(layer->reason, sizeof(layer->reason), "%s",
                   kind == CGROUP_NONE ? why : c->limits_by);
    if (kind == CGROUP_NONE)
        (void)snprintf(layer->fix, sizeof(layer->fix), "%s", fixes_cgroup());
}

/* Who is in an image's vessel beside the ordinary user who makes it. */
static void add_users(struct caps *c)
{
    struct subids ids;
    char why[160];
    struct layer *layer = NULL;

    if (geteuid() == 0)
        return;
    layer = add(c, "image_users", subids_find(&ids, why));
    if (layer->available) {
        (void)snprintf(layer->reason, sizeof(layer->reason),
                       "a range of ids: users from %u, groups from %u", ids.first_uid,
                       ids.first_gid);
        return;
    }
    (void)snprintf(layer->reason, sizeof(layer->reason), "one id: %.150s", why);
    (void)snprintf(layer->fix, sizeof(layer->fix),
                   "sudo apt-get install uidmap; sudo usermod --add-subuids "
                   "100000-165535 --add-subgids 100000-165535 USER (any range that is "
                   "free)");
}

static bool has(const struct caps *c, const char *name)
{
    for (size_t i = 0; i < c->layer_count; i++) {
        if (strcmp(c->layers[i].name, name) == 0)
            return c->layers[i].available;
    }
    return false;
}

int native_probe(struct caps *out, struct vial_error *err)
{
    struct trial trial = { .namespaces = 0 };
    int error = 0;

    /* Root is not asked by any of the switches; what else may be wrong, open
     * tells. The trial costs as much as half a vessel. */
    if (out->thorough || idmap_privileged() <= 0)
        trial_run(&trial);
    if (!trial.ran && !knows_overlay()) /* else open will tell */
        trial.lacks = LACKS_USR_OVERLAY;
    error = trial.namespaces;
    (void)err;
    memset(out, 0, sizeof(*out));
    add_namespaces(out, &trial);
    add_walls(out);
    add_overlay(out, &trial);
    add_root(out, &trial);
    add_limits(out);
    add_users(out);
    out->usable = has(out, "seccomp") && (error == 0 || has(out, "landlock"));
    out->level = error == 0 ? "namespaces" : "landlock";
    if (!out->usable) {
        out->level = "none";
        (void)fail(&out->why_not, VIAL_E_DRIVER,
                   "driver 'native' needs user namespaces, or Landlock and seccomp");
        (void)fail_cause(&out->why_not, "%s", out->layers[0].reason);
        (void)fail_remedy(&out->why_not, "%.250s", out->layers[0].fix);
    }
    return 0;
}
