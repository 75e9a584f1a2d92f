/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/capability.h>

#include "driver/native/native.h"
#include "keeper/root/keeper.h"

#define CAP(name) (UINT64_C(1) << CAP_##name)

const struct driver *const keeper_driver = &driver_native;
keeper_task *const keeper_images = NULL;

/* Mounts and namespaces, entering them included; mapping other ids; looking at and
 * ending processes of other users; sources that only root can reach, and cgroups;
 * limits above our own. */
const uint64_t keeper_caps = CAP(SYS_ADMIN) | CAP(SETUID) | CAP(SETGID) | CAP(SETPCAP) |
                             CAP(KILL) | CAP(SYS_PTRACE) | CAP(DAC_OVERRIDE) |
                             CAP(SYS_RESOURCE) | CAP(SYS_CHROOT);
