/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_PLAN_SOCKETS_H
#define VIAL_PLAN_SOCKETS_H

/*
 * Looks for sockets in a tree. Who can see a socket's name can talk to whoever
 * listens there, read-only mount or not, and network namespaces do not count.
 */

#include "base/str.h"

/* Looks at *BUDGET entries at most and lowers it by as many; breadth first,
 * through no link and into no other file system. FOUND gets the paths of sockets below
 * DIR_FD ("./a/b"), until it has MOST. 0 or -ENOMEM. Directories that cannot be read
 * are passed over: the program reads as the caller does. */
int sockets_find(int dir_fd, size_t *budget, size_t most, struct strv *found);

#endif
