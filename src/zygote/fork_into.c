/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/fork_into.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest/guest.h"
#include "zygote/zygote.h"

#define SPACES                                                                         \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |        \
     CLONE_NEWUTS | CLONE_NEWCGROUP)
#define PIONEER_PID 300 /* out of the way: programs begin to count at 2 */
#define PAUSE_NS    20000
#define PAUSES      50000

static _Noreturn void give_up(int fd, uint32_t step, int error)
{
    const struct zygote_report report = { step, (uint32_t)(error ? error : EPERM) };

    (void)!write(fd, &report, sizeof report);
    _exit(127);
}

static void join_cgroups(const struct order *o, int socket)
{
    for (size_t i = ORDER_CGROUPS; i < o->fd_count; i++)
        if (write(o->fds[i], "0", 1) != 1)
            give_up(socket, FORK_STEP_CGROUP, errno);
}

/* Nothing of the zygote's stays: not its stdio, not its socket. */
static void take_descriptors(int socket)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        give_up(socket, STEP_STDIO, errno);
    for (int i = 0; i < 3; i++)
        if (dup2(null, i) < 0)
            give_up(socket, STEP_STDIO, errno);
    if (socket == ZYGOTE_FD)
        (void)fcntl(ZYGOTE_FD, F_SETFD, FD_CLOEXEC);
    else if (dup3(socket, ZYGOTE_FD, O_CLOEXEC) < 0)
        give_up(socket, STEP_STDIO, errno);
}

static int open_oom(void)
{
    return open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
}

/* Of one that cannot be dumped it is the host's root's. An ordinary user's can be for a
 * moment: only the guest is there, and it has heard nothing yet. */
static void die_first(void)
{
    int fd = open_oom();

    if (fd < 0 && errno == EACCES && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0) {
        fd = open_oom();
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
    if (fd < 0 || write(fd, "1000", 4) != 4)
        give_up(ZYGOTE_FD, STEP_OOM, errno);
    (void)close(fd);
}

/* The guest's own code, with the jail that the guest was sent. */
static void confine(const struct order *o)
{
    struct guest *g = calloc(1, sizeof *g); /* only its jail is used */
    struct unpack u = { .data = o->jail, .len = o->jail_len };

    if (!g)
        give_up(ZYGOTE_FD, FORK_STEP_ORDER, ENOMEM);
    if (jail_read(&u, &g->jail) < 0 || !(g->jail.flags & JAIL_PID1))
        give_up(ZYGOTE_FD, FORK_STEP_ORDER, EINVAL);
    g->pid1 = true;
    /* Looked up only where it matters: to try costs less. */
    if (g->jail.flags & JAIL_SET_IDS)
        g->setgroups_denied = getgroups(0, NULL) != 0 &&
                              syscall(SYS_setgroups, 0, NULL) < 0 &&
                              confine_denies_groups();
    if (g->jail.flags & JAIL_OOM_FIRST)
        die_first();
    g->landlock_fd = g->users_fd = -1; /* a native vessel is a user namespace itself */
    if (g->jail.flags & JAIL_LANDLOCK) {
        g->landlock_fd = landlock_build(&g->jail);
        if (g->landlock_fd < 0)
            give_up(ZYGOTE_FD, STEP_LANDLOCK, -g->landlock_fd);
    }
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0);
    child_enter(g, NULL);
    /* Changed credentials cleared it; an exec would have set it. */
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    jail_done(&g->jail);
    free(g);
}

static void wait_for_guest(void)
{
    const struct timespec pause = { .tv_nsec = PAUSE_NS };

    for (int i = 0; getppid() != 1; i++) {
        if (i == PAUSES)
            give_up(ZYGOTE_FD, FORK_STEP_ADOPTED, ETIMEDOUT);
        (void)nanosleep(&pause, NULL);
    }
}

/* clone3 in place: the pioneer goes on in the carrier's frame while the carrier waits,
 * as after vfork, so that no call may have returned from here in between. */
__attribute__((always_inline)) static inline long birth(struct clone_args *args)
{
#if defined(__x86_64__)
    long rc = SYS_clone3;

    args->flags = CLONE_VM | CLONE_VFORK;
    __asm__ volatile("syscall"
                     : "+a"(rc)
                     : "D"(args), "S"(sizeof *args)
                     : "rcx", "r11", "memory");
    return rc;
#else
    long rc = syscall(SYS_clone3, args, sizeof *args); /* a plain fork will do */

    return rc < 0 ? -errno : rc;
#endif
}

/* In the carrier, then the pioneer; returns in the child alone. */
static void go_inside(const struct order *o)
{
    pid_t number = PIONEER_PID;
    struct clone_args args = { .set_tid = (uint64_t)(uintptr_t)&number,
                               .set_tid_size = 1 };
    int socket = o->fds[ORDER_SOCKET];
    volatile pid_t child = 0;
    long rc = 0;

    if (setns(o->fds[ORDER_VESSEL], SPACES) < 0)
        give_up(socket, FORK_STEP_ENTER, errno);
    rc = birth(&args);
    if (rc < 0)
        give_up(socket, FORK_STEP_FORK, (int)-rc);
    if (rc > 0) {
        /* A dead process that nobody asks after would keep the namespace alive. */
        while (waitpid((pid_t)rc, NULL, __WALL) < 0 && errno == EINTR)
            ;
        _exit(0);
    }
    child = fork();
    if (child < 0)
        give_up(socket, FORK_STEP_FORK, errno);
    if (child > 0)
        _exit(0);
}

static void be_born(const struct order *o)
{
    join_cgroups(o, o->fds[ORDER_SOCKET]);
    pages_touch(o->pages); /* all at once is cheaper than one by one */
    take_descriptors(o->fds[ORDER_SOCKET]);
    confine(o);
    wait_for_guest();
}

void fork_into_ready(void)
{
    const struct zygote_report ready = { 0, (uint32_t)getpid() };

    if (write(ZYGOTE_FD, &ready, sizeof ready) != (ssize_t)sizeof ready)
        _exit(127);
}

/* Some libraries make threads as they are imported, and want to be told of a fork by
 * libc: they are, by the pioneer, whose fork is libc's. Those that cannot live with it
 * have ended with the first fork of all, the rehearsal's. */
int fork_into_vessel(const struct order *order)
{
    struct clone_args args = { 0 };
    long carrier = birth(&args);

    if (carrier < 0)
        return -1;
    if (carrier > 0) {
        while (waitpid((pid_t)carrier, NULL, __WALL) < 0 && errno == EINTR)
            ;
        return 1;
    }
    go_inside(order);
    be_born(order);
    return 0;
}
