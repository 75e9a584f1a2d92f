/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_MOUNT_HAZARDS_H
#define VIAL_PLAN_MOUNT_HAZARDS_H

/*
 * Some directories of the host are unfit to be shown.
 *
 * The caller's home directory, by HOME and by /etc/passwd, is no one's to show: it
 * holds keys and, where it can be written, what the caller's next shell and the next
 * vial will read.
 *
 * Who can see a socket's name can talk to whoever listens there, read-only mount or
 * not, and network namespaces do not count.
 */

#include <stdbool.h>

#include "base/str.h"

#include "vial/error.h"

/* Judges PATH, free of links. HOME as the environment has it, or NULL. */
int mount_home_check(const char *path, bool writable, const char *home,
                     struct vial_error *err);

/* Refuses PATH, which is to be writable, if OWN is it, or in it, or around it: what
 * vial itself believes lies there, such as what the caller trusts. */
int mount_home_check_state(const char *path, const char *own, struct vial_error *err);

/* Finds sockets: looks at *BUDGET entries at most and lowers it by as many; breadth
 * first, through no link and into no other file system. FOUND gets the paths of sockets
 * below DIR_FD ("./a/b"), until it has MOST. 0 or -ENOMEM. Directories that cannot be
 * read are passed over: the program reads as the caller does. */
int sockets_find(int dir_fd, size_t *budget, size_t most, struct strv *found);

#endif
