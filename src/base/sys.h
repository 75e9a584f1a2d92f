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
/* Renames, unless there is something under the new name: -EEXIST. */
int sys_rename_new(int from_fd, const char *from, int to_fd, const char *to);
int sys_memfd_sealed(const char *name, const void *data, size_t len);
/* Sends DATA and, with it, COUNT descriptors, at most SYS_SEND_FDS, over a unix socket.
 * FLAGS are sendmsg's; no signal is raised. */
#define SYS_SEND_FDS 36
ssize_t sys_send_fds(int socket, struct iovec data, const int *fds, size_t count,
                     int flags);
ssize_t sys_random(void *buf, size_t len); /* fills BUF whole, or -errno */

/* Weighs our session against others by NICE, where the kernel has a group for each
 * (autogroups, sched(7)): the nice of a process says little there. Only for who began
 * its session; where it cannot be done, nothing changes. */
void sys_weigh_session(int nice);

/* What NUMBER, an errno, means; NULL where libc says that it does not know. */
const char *sys_text(int number);

/* "r-" and 16 hex digits: an id nobody can guess. OUT holds >= 20 bytes. */
void sys_make_id(char prefix, char *out);
/* The same with the name of a node in it, "r-n1-" and 16 hex digits, unless NODE is "".
 * NODE has at most SYS_NODE bytes; OUT holds >= 24. */
#define SYS_NODE 4
void sys_make_id_on(const char *node, char prefix, char *out);

#endif
