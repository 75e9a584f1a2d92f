/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_CONFINEMENT_H
#define VIAL_DRIVER_NATIVE_CONFINEMENT_H

/* Makes of a plan the struct jail, which tells the guest how to confine programs. */

#include "model/plan.h"
#include "wire/message.h"

#include "vial/error.h"

struct confine_options {
    bool limits_by_rlimit; /* no cgroup does it */
    bool landlock;         /* the kernel has it */
    unsigned uid, gid;     /* of programs, inside */
};

/* Everything but the filters. JAIL is empty before. */
int confine_fill(struct jail *jail, const struct plan *plan,
                 const struct confine_options *options, struct vial_error *err);

/* One Landlock rule, or one resource limit, more. -1 without memory. */
int confine_path(struct jail *jail, const char *path, uint32_t access);
void confine_rlimit(struct jail *jail, int resource, int64_t value);
/* How large a file can be: no larger than what it lies in, unless that is the host's,
 * or LEAST is more. */
int64_t confine_largest_file(const struct plan *plan, int64_t least);
void confine_rlimits_of(struct jail *jail, const struct limits *l,
                        bool limits_by_rlimit);

#endif
