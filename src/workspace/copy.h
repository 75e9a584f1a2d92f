/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WORKSPACE_COPY_H
#define VIAL_WORKSPACE_COPY_H

/* One name from a tree to the same name in another. All return 0 or -errno. */

#include <sys/types.h>

#include "workspace/tree.h"

/* NODE is what it is in FROM_FD, which is read with our own rights; it is made in
 * TO_FD, where it is not yet, with those of ID. A directory is made empty, and open
 * to its owner; a file has its bytes, mode and time. */
int copy_node(int from_fd, int to_fd, const char *path, const struct node *node,
              uid_t id);

/* SIZE bytes, or as many as there are. */
int copy_bytes(int from, int to, uint64_t size);

/* True if both give the same bytes from where they are. */
bool copy_same(int a, int b);

int copy_time(int fd, const struct node *node);

/* PATH gets MODE; not through a link. */
int copy_mode(int root_fd, const char *path, unsigned mode);

#endif
