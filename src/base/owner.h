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

#endif
