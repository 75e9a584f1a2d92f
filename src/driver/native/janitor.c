/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/janitor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"
#include "driver/native/raw.h"

/* The janitor's own descriptors, in this order from 0 on. */
enum { LEASH_FD, GUEST_FD, BASE_FD, FD_COUNT = BASE_FD + CGROUP_DIRS };

#define HIGH_FD     64     /* where they wait while they change places */
#define RETRY_NS    500000 /* between two attempts to remove a busy group */
#define RETRY_COUNT 4000
#define DEATH_MS    10000 /* a killed namespace has long been emptied by then */
#define ALL_SIGNALS 8     /* bytes of the kernel's set */

/* It shares our memory, so it has a stack of its own here, uses nothing else of
 * ours, and makes system calls past libc. */
struct janitor_room {
    _Alignas(16) unsigned char stack[RAW_STACK];
    int fds[FD_COUNT];
    char name[sizeof(((struct cgroup *)0)->name)];
};

#define ARG(x) ((long)(intptr_t)(x))

/* Output pipes above all: whoever reads them waits for their last writer. */
static bool keep_only(const int *fds)
{
    long high[FD_COUNT];

    for (int i = 0; i < FD_COUNT; i++)
        high[i] = fds[i] < 0
                      ? -1
                      : raw_call(SYS_fcntl, fds[i], F_DUPFD_CLOEXEC, HIGH_FD, 0, 0);
    for (int i = 0; i < FD_COUNT; i++) {
        if (high[i] < 0)
            (void)raw_call(SYS_close, i, 0, 0, 0, 0);
        else if (raw_call(SYS_dup3, high[i], i, 0, 0, 0) < 0)
            return false;
    }
    return raw_call(SYS_close_range, FD_COUNT, ~0u, 0, 0, 0) == 0;
}

/* The last holder of the other end is gone, or lets go. */
static void wait_for_leash(void)
{
    char byte;
    long n;

    do
        n = raw_call(SYS_read, LEASH_FD, ARG(&byte), 1, 0, 0);
    while (n > 0 || n == -EINTR);
}

static bool remove_from(int base_fd, const char *name)
{
    return raw_call(SYS_unlinkat, base_fd, ARG(name), AT_REMOVEDIR, 0, 0) != -EBUSY;
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
        (void)raw_call(SYS_nanosleep, ARG(&pause), 0, 0, 0, 0);
    }
}

static void wait_for_guest(void)
{
    struct pollfd guest = { .fd = GUEST_FD, .events = POLLIN };
    const struct timespec limit = { .tv_sec = DEATH_MS / 1000 };

    (void)raw_call(SYS_ppoll, ARG(&guest), 1, ARG(&limit), 0, ALL_SIGNALS);
}

/* Born with all signals blocked. */
static void run(void *arg)
{
    const struct janitor_room *room = arg;

    (void)raw_call(SYS_setsid, 0, 0, 0, 0, 0);
    (void)raw_call(SYS_prctl, PR_SET_NAME, ARG("vial-janitor"), 0, 0, 0);
    if (keep_only(room->fds) && raw_call(SYS_chdir, ARG("/"), 0, 0, 0, 0) == 0) {
        wait_for_leash();
        (void)raw_call(SYS_pidfd_send_signal, GUEST_FD, SIGKILL, 0, 0, 0);
        wait_for_guest();
        remove_groups(room->name);
    }
    for (;;)
        (void)raw_call(SYS_exit_group, 0, 0, 0, 0, 0);
}

void janitor_start(struct janitor *out, const struct cgroup *c, int pidfd)
{
    struct clone_args args = { 0 }; /* no signal to anyone at its end */
    struct janitor_room *room = aligned_alloc(16, sizeof(*room));
    int leash[2];
    long pid = 0;

    *out = JANITOR_NONE;
    if (!room || pipe2(leash, O_CLOEXEC) < 0) {
        free(room);
        return;
    }
    room->fds[LEASH_FD] = leash[0];
    room->fds[GUEST_FD] = pidfd;
    for (int i = 0; i < CGROUP_DIRS; i++)
        room->fds[BASE_FD + i] = c->dirs[i].base_fd;
    memcpy(room->name, c->name, sizeof(room->name));
    pid = raw_spawn(&args, room->stack, run, room);
    (void)close(leash[0]);
    if (pid > 0) {
        *out =
            (struct janitor){ .leash_fd = leash[1], .pid = (pid_t)pid, .room = room };
        return;
    }
    (void)close(leash[1]);
    free(room);
}

void janitor_release(struct janitor *j)
{
    if (j->leash_fd >= 0)
        (void)close(j->leash_fd);
    *j = JANITOR_NONE; /* its room is lost to us: it still lives there */
}

void janitor_call_off(const struct janitor *j)
{
    if (j->leash_fd >= 0)
        (void)kill(j->pid, SIGKILL); /* not reaped yet, so the number is its own */
}

void janitor_dismiss(struct janitor *j)
{
    if (j->leash_fd < 0)
        return;
    janitor_call_off(j);
    while (waitpid(j->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    (void)close(j->leash_fd);
    free(j->room);
    *j = JANITOR_NONE;
}
