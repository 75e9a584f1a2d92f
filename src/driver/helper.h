/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_HELPER_H
#define VIAL_DRIVER_HELPER_H

/* Programs of vial's own that drivers start: vial-tls, vial-gate, vial-secrets,
 * vial-image. */

#include <stdbool.h>
#include <stddef.h>

#define HELPER_PATH 1024

/* Beside the program in a build tree, or where vial was installed. False: nowhere. */
bool helper_find(const char *name, char path[HELPER_PATH]);

#define HELPER_FD    3 /* the first of the descriptors that it is given */
#define HELPER_ABOVE 10

/* *FD is HELPER_ABOVE or higher afterwards. -1: with errno. */
int helper_lift(int *fd);

/* Starts PATH with ARGS (NULL-terminated) in a session of its own, without any
 * environment, and with FDS, which are HELPER_ABOVE or higher, at HELPER_FD and on. Its
 * pidfd, or -errno. It is waited for with __WALL, and by the thread that started it. */
int helper_start(const char *path, const char *const *args, const int *fds,
                 size_t count);

/* Kills and reaps it; *PIDFD becomes -1, which it may be. */
void helper_end(int *pidfd);

#endif
