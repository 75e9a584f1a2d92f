/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/remains.h"

#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"

/* linux/pidfd.h, since 6.11. */
#define GET_MOUNT_NAMESPACE _IO(0xFF, 3)

int remains_take(int pidfd)
{
    return ioctl(pidfd, GET_MOUNT_NAMESPACE, 0);
}

/* Into a socket, together with that socket's own other end. */
static int send_both(int from_fd, int to_fd, int fd)
{
    int fds[] = { fd, to_fd };
    char byte = 0;
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(fds))] = { 0 };
    struct iovec iov = { &byte, 1 };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = room,
                              .msg_controllen = sizeof(room) };
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(c), fds, sizeof(fds));
    return sendmsg(from_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

/* A socket that only a message in its own queue refers to is garbage, and the kernel
 * collects such in a thread of its own (since 6.10; before, or if it cannot be sent,
 * closing does it here and now). */
void remains_leave(int *fd)
{
    int pair[2] = { -1, -1 };

    if (*fd < 0)
        return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0)
        (void)send_both(pair[0], pair[1], *fd);
    auto_fd_(fd);
    auto_fd_(&pair[1]);
    auto_fd_(&pair[0]); /* last: this is what makes the kernel look */
    *fd = -1;
}
