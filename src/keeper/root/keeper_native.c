/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/capability.h>

#include "base/fail.h"
#include "driver/native/native.h"
#include "driver/native/seccomp.h"
#include "keeper/root/keeper.h"

#define CAP(name) (UINT64_C(1) << CAP_##name)

const struct driver *const keeper_driver = &driver_native;
keeper_task *const keeper_images = NULL;

/* Mounts and namespaces, entering them included; mapping other ids; looking at and
 * ending processes of other users; sources that only root can reach, and cgroups;
 * limits above our own; and, for vial-image, which gives up the others: giving the
 * files of a snapshot their owners, modes and capabilities. */
const uint64_t keeper_caps = CAP(SYS_ADMIN) | CAP(SETUID) | CAP(SETGID) | CAP(SETPCAP) |
                             CAP(KILL) | CAP(SYS_PTRACE) | CAP(DAC_OVERRIDE) |
                             CAP(SYS_RESOURCE) | CAP(SYS_CHROOT) | CAP(CHOWN) |
                             CAP(FOWNER) | CAP(FSETID) | CAP(SETFCAP);

/*
 * Instead of driver/native/describe.c: the keeper reads no YAML and writes no JSON.
 * Profiles are compiled when vial is built.
 */

int seccomp_compile(const char *dir, const char *name,
                    struct blob filters[PROFILE_FILTERS], struct vial_error *err)
{
    (void)filters;
    (void)fail(err, VIAL_E_VALUE, "seccomp profile '%s' is unknown, or not compiled",
               name);
    return fail_remedy(
        err, "the daemon takes profiles that have .bpf files in '%.150s'", dir);
}

int native_describe(const struct plan *plan, const char *share_dir, json_t *into,
                    struct vial_error *err)
{
    (void)plan;
    (void)share_dir;
    (void)into;
    return fail(err, VIAL_E_UNSUPPORTED, "the keeper describes nothing");
}
