/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_SYS_H
#define VIAL_BASE_SYS_H

/* System calls that libc lacks or wraps badly. Each returns -errno on failure. */

#include <stdint.h>
#include <sys/types.h>

int sys_pidfd_open(pid_t pid);
int sys_pidfd_kill(int pidfd, int signal);
int sys_close_range(unsigned first, unsigned last);
/* RESOLVE_* flags as in linux/openat2.h. */
int sys_openat2(int dir_fd, const char *path, uint64_t flags, uint64_t mode,
                uint64_t resolve);
int sys_memfd_sealed(const char *name, const void *data, size_t len);
ssize_t sys_random(void *buf, size_t len); /* fills BUF whole, or -errno */

/* "r-" and 16 hex digits: an id nobody can guess. OUT holds >= 20 bytes. */
void sys_make_id(char prefix, char *out);

#endif
