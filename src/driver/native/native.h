/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_NATIVE_H
#define VIAL_DRIVER_NATIVE_NATIVE_H

/*
 * Vessels out of Linux alone: namespaces, a root of their own, seccomp,
 * Landlock, cgroups. Root or an ordinary user; no daemon, no image.
 *
 *   native    the table of functions         root     the tree inside, as data
 *   probe     what this host can do          script   the child's life as data
 *   confine   what the guest is told          child    walks the script
 *   launch    clone, maps, exec              mounts   what the caller shows
 *   cgroup*   limits and counters            sweep    what dead owners left
 *   profile, compile, seccomp: filters       fixes    what a person can do
 *   child_script  writes the child's script  ending   counts, kills, closes
 *   shared    what is made once for many: the guest, our cgroups, a janitor
 */

#include "driver/driver.h"

/* describe.c */
int native_describe(const struct plan *plan, const char *share_dir, json_t *into,
                    struct vial_error *err);

/* Gives the descriptors into which a process writes "0" to join the vessel's cgroups:
 * how many, at most CGROUP_DIRS, or -1. They stay the vessel's, which closes them when
 * it is first asked what it used. */
int native_join_fds(struct vessel *vessel, int *fds, struct vial_error *err);

/* PATH of the vessel's root, as the caller may name it while the vessel is open. NULL
 * without memory. */
char *native_path_inside(struct vessel *vessel, const char *path);

/* shared.c. A child process of ours, which knows S since it was forked, has ended. If
 * not WELL, the groups of its vessels are removed now. PID may be the janitor's, too.
 */
void native_shared_ended(struct native_shared *s, pid_t pid, bool well);

/* probe.c */
int native_probe(struct caps *out, struct vial_error *err);
int native_landlock_abi(void); /* 0: none here; or -errno */

#endif
