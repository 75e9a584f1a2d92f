/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/fixes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/io.h"

/* A switch of some distribution that forbids user namespaces. */
struct knob {
    const char *path, *value; /* forbids while it has this value */
    const char *reason, *fix;
};

static const struct knob knobs[] = {
    { "/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0",
      "sudo sysctl -w user.max_user_namespaces=15000 (RHEL; to keep it: "
      "echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/90-userns.conf)" },
    { "/proc/sys/user/max_net_namespaces", "0", "user.max_net_namespaces is 0",
      "sudo sysctl -w user.max_net_namespaces=15000" },
    { "/proc/sys/kernel/unprivileged_userns_clone", "0",
      "kernel.unprivileged_userns_clone is 0",
      "sudo sysctl -w kernel.unprivileged_userns_clone=1 (Debian)" },
    { "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
      "AppArmor restricts unprivileged user namespaces",
      "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu 24.04), or an "
      "AppArmor profile for vial that has the line 'userns,'" },
};

static const struct knob *find_knob(void)
{
    for (size_t i = 0; i < sizeof(knobs) / sizeof(*knobs); i++) {
        char text[32];

        if (io_read_at(AT_FDCWD, knobs[i].path, text, sizeof(text)) > 0 &&
            strcmp(text, knobs[i].value) == 0)
            return &knobs[i];
    }
    return NULL;
}

bool fixes_forbidden(void)
{
    return find_knob() != NULL;
}

static bool in_container(void)
{
    return access("/.dockerenv", F_OK) == 0 ||
           access("/run/.containerenv", F_OK) == 0 ||
           access("/var/run/secrets/kubernetes.io", F_OK) == 0;
}

void fixes_user(int error, char reason[160], char fix[320])
{
    const struct knob *knob = find_knob();

    if (knob) {
        (void)snprintf(reason, 160, "%s", knob->reason);
        (void)snprintf(fix, 320, "%s", knob->fix);
        return;
    }
    (void)snprintf(reason, 160, "user namespaces are refused: %s",
                   strerror(error)); /* NOLINT(concurrency-mt-unsafe) */
    if (in_container())
        (void)snprintf(fix, 320,
                       "start the container with '--security-opt "
                       "seccomp=unconfined --security-opt systempaths=unconfined' "
                       "(Docker), or 'seccompProfile: Unconfined' and 'procMount: "
                       "Unmasked' (Kubernetes)");
    else
        (void)snprintf(fix, 320,
                       "run vial as root, or enable CONFIG_USER_NS in the kernel");
}

int fixes_clone(int error, struct vial_error *err)
{
    char reason[160];
    char fix[320];

    if (error == ENOMEM || error == EAGAIN)
        return fail_remedy(err,
                           "the host is out of memory or processes; try again later");
    fixes_user(error, reason, fix);
    return fail_remedy(err, "%s", fix);
}

int fixes_step(const struct step *step, int error, struct vial_error *err)
{
    if (step->op == OP_MOUNT && strcmp(step->mount.type, "proc") == 0 && error == EPERM)
        return fail_remedy(err, "a container hides parts of /proc: start it with "
                                "'--security-opt systempaths=unconfined'");
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

const char *fixes_cgroup(void)
{
    return geteuid() == 0
               ? "mount the cgroup file system writable (in Docker: --privileged or "
                 "--cgroupns=private with a writable /sys/fs/cgroup)"
               : "run below a delegated cgroup: systemd-run --user --scope -p Delegate=yes "
                 "vial …, or as root";
}
