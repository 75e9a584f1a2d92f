/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From the call of clone until the guest runs, the child shares the caller's
 * memory while the calling thread waits: nothing is copied, however large the
 * caller is. So the child makes system calls only, and with every signal
 * blocked, lest a handler of the caller's run in it. The guest unblocks them.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "driver/process/process.h"

#define GUEST_STREAM 3
#define ABOVE_STDIO  10 /* where descriptors wait that dup2 must not hit */
#define CHILD_STACK  (64u << 10)

struct child {
    int guest_fd, stream_fd, null_fd; /* each >= ABOVE_STDIO */
    int error;                        /* written by the child */
};

static int child_main(void *argument)
{
    char name[] = "vial-init";
    char *const argv[] = { name, NULL };
    char *const env[] = { NULL };
    struct child *c = argument;

    if (setsid() >= 0 && dup2(c->null_fd, 0) == 0 && dup2(c->null_fd, 1) == 1 &&
        dup2(c->null_fd, 2) == 2 && dup2(c->stream_fd, GUEST_STREAM) == GUEST_STREAM &&
        syscall(SYS_close_range, GUEST_STREAM + 1, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        (void)syscall(SYS_execveat, c->guest_fd, "", argv, env, AT_EMPTY_PATH);
    c->error = errno;
    _exit(127);
}

/* Descriptor or -1. */
static int lift(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, ABOVE_STDIO);
}

static pid_t clone_child(struct child *c, int *pidfd)
{
    auto_free char *stack = malloc(CHILD_STACK);
    sigset_t all, before;
    pid_t pid;

    if (!stack)
        return -1;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = clone(child_main, stack + CHILD_STACK,
                CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, c, pidfd);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

int spawn_guest(int guest_fd, int stream_fd, pid_t *pid, int *pidfd,
                struct vial_error *err)
{
    auto_fd int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    auto_fd int null_high = lift(null_fd);
    auto_fd int guest_high = lift(guest_fd);
    auto_fd int stream_high = lift(stream_fd);
    struct child c = { .guest_fd = guest_high,
                       .stream_fd = stream_high,
                       .null_fd = null_high };

    if (null_high < 0 || guest_high < 0 || stream_high < 0)
        return fail_sys(err, "prepare the guest's descriptors");
    *pid = clone_child(&c, pidfd);
    if (*pid < 0) {
        *pid = 0;
        return fail_sys(err, "start the guest");
    }
    if (c.error != 0) {
        (void)fail_sys_rc(err, c.error, "execute the guest");
        return fail_as(err, VIAL_E_OPEN);
    }
    return 0;
}
