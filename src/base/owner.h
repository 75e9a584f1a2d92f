/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_OWNER_H
#define VIAL_BASE_OWNER_H

/* Names of things that outlive a crash, from which their owner can be told. */

#include <stdbool.h>
#include <stddef.h>

/* "vial-<pid namespace>-<pid>-<start time>-<id>". 0 or -1. */
int owner_name(const char *id, char *out, size_t size);

/* NAME is one of ours and its owner, in our pid namespace, lives no more. An
 * owner that cannot be judged (another namespace) counts as alive. */
bool owner_is_dead(const char *name);

/*
 * Of another pid namespace's owner the number says nothing. What it makes in a
 * directory can still be judged if it marks that first: a lock on a byte that is its
 * own, which the kernel keeps until the last copy of the descriptor is closed. Names
 * below the mark have an id that begins with OWNER_MARKED.
 */
#define OWNER_MARKED "held-"

/* Marks the directories as ours, -1 standing for none. 0, or -errno: not all of them.
 */
int owner_mark(const int *dir_fds, size_t count);

/* NAME, in the directory, is a marked one of another namespace's owner, who is gone
 * with all that have a copy of its descriptor. */
bool owner_has_left(int dir_fd, const char *name);

#endif
