/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/unmount_later.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/sys.h"

/* linux/pidfd.h, since 6.11. */
#define GET_MOUNT_NAMESPACE _IO(0xFF, 3)

int unmount_later_take(int pidfd)
{
    return ioctl(pidfd, GET_MOUNT_NAMESPACE, 0);
}

/* Into a socket, together with that socket's own other end. */
static void send_both(int from_fd, int to_fd, int fd)
{
    const int fds[] = { fd, to_fd };
    char byte = 0;

    (void)sys_send_fds(from_fd, (struct iovec){ &byte, 1 }, fds, 2, MSG_DONTWAIT);
}

/* A socket that only a message in its own queue refers to is garbage, and the kernel
 * collects such in a thread of its own (since 6.10; before, or if it cannot be sent,
 * closing does it here and now). */
void unmount_later_leave(int *fd)
{
    int pair[2] = { -1, -1 };

    if (*fd < 0)
        return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0)
        send_both(pair[0], pair[1], *fd);
    auto_fd_(fd);
    auto_fd_(&pair[1]);
    auto_fd_(&pair[0]); /* last: this is what makes the kernel look */
    *fd = -1;
}
