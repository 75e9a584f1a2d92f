/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_SYS_H
#define VIAL_BASE_SYS_H

/* System calls that libc lacks or wraps badly. Each returns -errno on failure. */

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

int sys_pidfd_open(pid_t pid);
int sys_pidfd_kill(int pidfd, int signal);
int sys_close_range(unsigned first, unsigned last);
/* RESOLVE_* flags as in linux/openat2.h. */
int sys_openat2(int dir_fd, const char *path, uint64_t flags, uint64_t mode,
                uint64_t resolve);
int sys_memfd_sealed(const char *name, const void *data, size_t len);
/* Sends DATA and, with it, COUNT descriptors, at most SYS_SEND_FDS, over a unix socket.
 * FLAGS are sendmsg's; no signal is raised. */
#define SYS_SEND_FDS 36
ssize_t sys_send_fds(int socket, struct iovec data, const int *fds, size_t count,
                     int flags);
ssize_t sys_random(void *buf, size_t len); /* fills BUF whole, or -errno */

/* "r-" and 16 hex digits: an id nobody can guess. OUT holds >= 20 bytes. */
void sys_make_id(char prefix, char *out);

#endif
