/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_JANITOR_H
#define VIAL_DRIVER_NATIVE_JANITOR_H

/*
 * The janitor: a small process beside each vessel that outlives its owner by a
 * moment. It waits for the owner to let go of the leash, which any death of the
 * owner does; then it kills the guest and removes the vessel's cgroups. So an
 * owner that was killed leaves nothing behind. Where many are opened, one janitor
 * serves them all.
 *
 *   janitor_start -> { the owner tidies up by itself -> janitor_dismiss | it dies }
 *
 * It has no descriptor of the owner's but the few it needs, and makes system
 * calls only.
 */

#include <sys/types.h>

#include "driver/native/cgroup.h"

struct janitor_room;

struct janitor {
    int leash_fd; /* or -1: there is none, and cgroup_sweep must do */
    pid_t pid;    /* our child */
    struct janitor_room *room;
};

#define JANITOR_NONE ((struct janitor){ .leash_fd = -1 })

/* C is found and named; its directories must not exist yet: who removes them is there
 * before they are. PIDFD is the guest, or -1 where that will be born in C. Where a
 * janitor cannot be had, OUT becomes JANITOR_NONE. */
void janitor_start(struct janitor *out, const struct cgroup *c, int pidfd);

/* The same for every vessel whose groups lie in BASE and are named like it. */
void janitor_start_for_all(struct janitor *out, const struct cgroup *base);

/* From here on it is as if the owner had died. */
void janitor_release(struct janitor *j);

/* The owner has done its work: the janitor begins to end, and has ended when dismissed.
 */
void janitor_call_off(const struct janitor *j);
void janitor_dismiss(struct janitor *j);

#endif
