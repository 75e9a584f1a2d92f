/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_SUBIDS_H
#define VIAL_BASE_SUBIDS_H

/*
 * Ids that an administrator has given to an ordinary user, for user namespaces of his:
 * ranges in /etc/subuid and /etc/subgid, which newuidmap(1) and newgidmap(1) map for
 * him. Inside, 0 is the user himself, and 1 to 65535 are the range's.
 *
 *   subids_find -> (a process makes its user namespace) -> subids_map
 */

#include <stdbool.h>
#include <sys/types.h>

#include "vial/error.h"

#define SUBIDS_COUNT 65535u /* of the range's, that are mapped */

struct subids {
    uid_t first_uid; /* what is 1 inside */
    gid_t first_gid;
};

/* The caller's range, if he has one and both programs can map it for him. False: WHY is
 * a sentence without its full stop. Root, who needs none, has none. */
bool subids_find(struct subids *out, char why[160]);

/* The same of the user UID with group GID, whose name and ranges stand in files of
 * ETC_DIR; the programs are not looked at. */
bool subids_read(const char *etc_dir, uid_t uid, gid_t gid, struct subids *out,
                 char why[160]);

/* Maps the ids of process PID, which is the caller's and in a user namespace that has
 * none yet. An error unless both maps are just these. */
int subids_map(pid_t pid, const struct subids *ids, struct vial_error *err);

#endif
