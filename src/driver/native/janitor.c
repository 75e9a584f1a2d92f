/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/janitor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"

/* The janitor's own descriptors, in this order from 0 on. */
enum { LEASH_FD, GUEST_FD, BASE_FD, FD_COUNT = BASE_FD + CGROUP_DIRS };

#define HIGH_FD     64     /* where they wait while they change places */
#define RETRY_NS    500000 /* between two attempts to remove a busy group */
#define RETRY_COUNT 4000
#define DEATH_MS    10000 /* a killed namespace has long been emptied by then */

static long fork_plain(void)
{
    struct clone_args args = { 0 }; /* no signal to anyone at its end */

    return syscall(SYS_clone3, &args, sizeof(args));
}

/* Output pipes above all: whoever reads them waits for their last writer. */
static bool keep_only(const int *fds)
{
    int high[FD_COUNT];

    for (int i = 0; i < FD_COUNT; i++)
        high[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, HIGH_FD);
    for (int i = 0; i < FD_COUNT; i++) {
        if (high[i] < 0)
            (void)close(i);
        else if (dup2(high[i], i) < 0)
            return false;
    }
    return sys_close_range(FD_COUNT, ~0u) == 0;
}

/* The last holder of the other end is gone, or lets go. */
static void wait_for_leash(void)
{
    char byte;
    ssize_t n;

    do
        n = read(LEASH_FD, &byte, 1);
    while (n > 0 || (n < 0 && errno == EINTR));
}

static bool remove_from(int base_fd, const char *name)
{
    return unlinkat(base_fd, name, AT_REMOVEDIR) == 0 || errno != EBUSY;
}

static void remove_groups(const char *name)
{
    const struct timespec pause = { .tv_nsec = RETRY_NS };

    for (int tries = 0; tries < RETRY_COUNT; tries++) {
        bool gone = true;

        for (int i = 0; i < CGROUP_DIRS; i++)
            gone = remove_from(BASE_FD + i, name) && gone;
        if (gone)
            return;
        (void)nanosleep(&pause, NULL);
    }
}

static _Noreturn void run(const int *fds, const char *name)
{
    struct pollfd guest = { .fd = GUEST_FD, .events = POLLIN };
    sigset_t all;

    (void)sigfillset(&all);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a forked process has one thread */
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)setsid();
    (void)prctl(PR_SET_NAME, "vial-janitor");
    if (!keep_only(fds) || chdir("/") < 0)
        _exit(1);
    wait_for_leash();
    (void)sys_pidfd_kill(GUEST_FD, SIGKILL);
    (void)poll(&guest, 1, DEATH_MS);
    remove_groups(name);
    _exit(0);
}

void janitor_start(struct janitor *out, const struct cgroup *c, int pidfd)
{
    int leash[2];
    int fds[FD_COUNT] = { -1, pidfd };
    long pid = 0;

    *out = JANITOR_NONE;
    if (pipe2(leash, O_CLOEXEC) < 0)
        return;
    fds[LEASH_FD] = leash[0];
    for (int i = 0; i < CGROUP_DIRS; i++)
        fds[BASE_FD + i] = c->dirs[i].base_fd;
    pid = fork_plain();
    if (pid == 0)
        run(fds, c->name);
    (void)close(leash[0]);
    if (pid > 0)
        *out = (struct janitor){ .leash_fd = leash[1], .pid = (pid_t)pid };
    else
        (void)close(leash[1]);
}

void janitor_dismiss(struct janitor *j)
{
    if (j->leash_fd < 0)
        return;
    (void)kill(j->pid, SIGKILL); /* not reaped yet, so the number is its own */
    while (waitpid(j->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    (void)close(j->leash_fd);
    *j = JANITOR_NONE;
}
