/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/io.h"
#include "driver/native/cgroup.h"
#include "driver/native/fixes.h"
#include "driver/native/idmap.h"
#include "driver/native/native.h"
#include "driver/native/trial.h"

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
static void add_namespaces(struct caps *c, int error)
{
    static const char *const names[] = { "user", "pid", "mount", "net",
                                         "ipc",  "uts", "cgroup" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct layer *layer = add(c, names[i], error == 0);

        if (error != 0)
            fixes_user(error, layer->reason, layer->fix);
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

    if (etc || trial->namespaces)
        return;
    if (knows_overlay()) {
        (void)snprintf(layer->reason, sizeof(layer->reason),
                       "it cannot be mounted over '%s' in a namespace",
                       usr ? "/etc" : "/usr");
        return;
    }
    (void)snprintf(layer->reason, sizeof(layer->reason), "the module is not loaded");
    (void)snprintf(layer->fix, sizeof(layer->fix), "sudo modprobe overlay");
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
    add_namespaces(out, error);
    add_walls(out);
    add_overlay(out, &trial);
    add_limits(out);
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
