/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"

#ifndef MFD_EXEC
    #define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

#define INTERRUPTS 1000u /* in a row: then it is no signal that interrupts */

static int result(long rc)
{
    return rc < 0 ? -errno : (int)rc;
}

int sys_pidfd_open(pid_t pid)
{
    return result(syscall(SYS_pidfd_open, pid, 0));
}

int sys_pidfd_kill(int pidfd, int signal)
{
    return result(syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0));
}

int sys_close_range(unsigned first, unsigned last)
{
    return result(syscall(SYS_close_range, first, last, 0));
}

int sys_openat2(int dir_fd, const char *path, uint64_t flags, uint64_t mode,
                uint64_t resolve)
{
    struct open_how how = { .flags = flags | O_CLOEXEC,
                            .mode = mode,
                            .resolve = resolve };

    return result(syscall(SYS_openat2, dir_fd, path, &how, sizeof how));
}

/* Kernels from 6.3 want to be told that the file may be executed, older ones
 * refuse the flag. */
static int memfd_open(const char *name)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, flags | MFD_EXEC);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, flags);
    return result(fd);
}

int sys_rename_new(int from_fd, const char *from, int to_fd, const char *to)
{
    long rc = syscall(SYS_renameat2, from_fd, from, to_fd, to, RENAME_NOREPLACE);

    return rc < 0 ? -errno : 0;
}

int sys_memfd_sealed(const char *name, const void *data, size_t len)
{
    auto_fd int fd = memfd_open(name);
    int rc;

    if (fd < 0)
        return fd;
    rc = io_write_all(fd, data, len);
    if (rc < 0)
        return rc;
    if (lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return -errno;
    return fd_take(&fd);
}

ssize_t sys_send_fds(int socket, struct iovec data, const int *fds, size_t count,
                     int flags)
{
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int) * SYS_SEND_FDS)] = { 0 };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
    unsigned tries = 0;
    ssize_t n;

    if (count > SYS_SEND_FDS)
        return -EMSGSIZE;
    if (count) {
        struct cmsghdr *c = NULL;

        message.msg_control = room;
        message.msg_controllen = (socklen_t)CMSG_SPACE(sizeof(int) * count);
        c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = (socklen_t)CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    }
    do
        n = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
    while (n < 0 && errno == EINTR && ++tries < INTERRUPTS);
    return n < 0 ? -errno : n;
}

ssize_t sys_random(void *buf, size_t len)
{
    char *at = buf;
    size_t got = 0;

    while (got < len) {
        ssize_t n = getrandom(at + got, len - got, 0);

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            got += (size_t)n;
    }
    return (ssize_t)len;
}

void sys_weigh_session(int nice)
{
    char text[16];

    if (getsid(0) != getpid())
        return;
    (void)snprintf(text, sizeof text, "%d", nice);
    (void)io_write_at(AT_FDCWD, "/proc/self/autogroup", text);
}

/* Neither form looks at the locale or shares a buffer: musl's strerror has none. */
const char *sys_text(int number)
{
#ifdef __GLIBC__
    return strerrordesc_np(number);
#else
    return strerror(number); /* NOLINT(concurrency-mt-unsafe) */
#endif
}

void sys_make_id(char prefix, char *out)
{
    uint64_t number = 0;

    /* Only a kernel older than any we run on has no getrandom; ids are then
     * still different from each other. */
    if (sys_random(&number, sizeof number) < 0)
        number = (uint64_t)clock_now_ns() ^ ((uint64_t)getpid() << 40);
    (void)snprintf(out, 20, "%c-%016llx", prefix, (unsigned long long)number);
}

void sys_make_id_on(const char *node, char prefix, char *out)
{
    char plain[20];

    sys_make_id(prefix, plain);
    (void)snprintf(out, 24, "%c-%.*s%s%.16s", prefix, SYS_NODE, node, *node ? "-" : "",
                   plain + 2);
}
