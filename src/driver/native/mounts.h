/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_MOUNTS_H
#define VIAL_DRIVER_NATIVE_MOUNTS_H

/*
 * Mounts are what a caller shows of the host. A source is opened once, without
 * following links, compared with the object that was judged when the plan was built,
 * and that descriptor is mounted.
 *
 * For root the copies are made and id-mapped here, in the host's namespace: what
 * the program (PROGRAM_ID on the host) writes belongs to the caller. An ordinary
 * user's child makes them itself (mounts_add_steps), being the same user.
 *
 * A volume is no caller's: where root keeps it, its files belong to the numbers that
 * they have inside, of any user there.
 */

#include <sys/types.h>

#include "base/sys.h"
#include "driver/native/held_volumes.h"
#include "driver/native/script.h"
#include "model/plan.h"

#include "vial/error.h"

#define MOUNTS_MAX 32

struct mount_fds {
    int fd[MOUNTS_MAX + 2]; /* owned; the device nodes and an image are two more */
    size_t count;
};

int mounts_check(const struct plan *plan, struct vial_error *err);
/* What the host and the vessel have to do with each other, for its mounts. */
struct mount_sides {
    const struct held_volumes *volumes;
    uid_t program_id; /* on the host */
    pid_t pid;        /* of the child, whose users volumes are seen by */
};
int mounts_prepare(const struct plan *plan, const struct mount_sides *sides,
                   struct mount_fds *out, struct vial_error *err);
void mounts_done(struct mount_fds *m);
void mounts_add_steps(struct script *s, const struct plan *plan,
                      const struct held_volumes *volumes);

#endif
