/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "guest/guest.h"

#ifndef TIOCGPTPEER
    #define TIOCGPTPEER _IO('T', 0x41) /* since Linux 4.13 */
#endif

void terminal_resize(int fd, uint32_t size)
{
    const struct winsize w = { .ws_row = (unsigned short)(size >> 16),
                               .ws_col = (unsigned short)size };

    (void)ioctl(fd, TIOCSWINSZ, &w);
}

/* By descriptor and not by name: /dev/pts may be anyone's. */
static int open_peer(int master)
{
    int unlock = 0;
    int fd = ioctl(master, TIOCSPTLCK, &unlock);

    if (fd == 0)
        fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int terminal_open(struct job *j, struct child_pipes *theirs, uint32_t size)
{
    int peer;

    j->fd[1] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (j->fd[1] < 0)
        return -errno;
    terminal_resize(j->fd[1], size);
    peer = open_peer(j->fd[1]);
    if (peer < 0)
        return peer;
    theirs->in = peer;
    theirs->out = fcntl(peer, F_DUPFD_CLOEXEC, 3);
    theirs->err = fcntl(peer, F_DUPFD_CLOEXEC, 3);
    j->fd[0] = fcntl(j->fd[1], F_DUPFD_CLOEXEC, 3);
    if (theirs->out < 0 || theirs->err < 0 || j->fd[0] < 0)
        return -errno;
    j->terminal = true;
    return 0;
}
