/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_SOCKET_NAME_H
#define VIAL_SERVE_SOCKET_NAME_H

/* The name of a unix socket. What stands under it listens, or is dead for good: so that
 * of daemons which begin, and end, at the same moment none takes another's away. */

#include <sys/stat.h>

#include "vial/error.h"

/* FD listens under PATH, which MODE makes for its owner or for all; *MADE tells it from
 * what others may put there. A name left over from a daemon that died is taken. */
int socket_name_take(int fd, const char *path, mode_t mode, struct stat *made,
                     struct vial_error *err);

/* Removes PATH if it is still what was MADE; before its descriptor is closed. */
void socket_name_leave(const char *path, const struct stat *made);

#endif
