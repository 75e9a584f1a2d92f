/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/path.h"
#include "base/sys.h"
#include "driver/native/raw.h"

bool helper_find(const char *name, char path[HELPER_PATH])
{
    auto_free char *self = path_self_dir();
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    const char *places[] = { getenv("VIAL_SHARE"), self, VIAL_SHARE_DIR };

    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        int n = places[i] ? snprintf(path, HELPER_PATH, "%s/%s", places[i], name) : 0;

        if (n > 0 && n < HELPER_PATH && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

int helper_lift(int *fd)
{
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, HELPER_ABOVE);

    if (high < 0)
        return -1;
    (void)close(*fd);
    *fd = high;
    return 0;
}

/* What the child needs between clone and exec, where it only makes system calls. */
struct birth {
    _Alignas(16) unsigned char stack[RAW_STACK];
    const char *path;
    const char *const *args;
    const char *const *env;
    const int *fds;
    size_t count;
};

#define ARG(x) ((long)(intptr_t)(x))

static void become(void *arg)
{
    const struct birth *b = arg;
    long rc = raw_call(SYS_setsid, 0, 0, 0, 0, 0);

    for (size_t i = 0; rc >= 0 && i < b->count; i++)
        rc = raw_call(SYS_dup3, b->fds[i], HELPER_FD + (long)i, 0, 0, 0);
    if (rc >= 0)
        (void)raw_call(SYS_execve, ARG(b->path), ARG(b->args), ARG(b->env), 0, 0);
    for (;;)
        (void)raw_call(SYS_exit_group, 127, 0, 0, 0, 0);
}

/* None, but in test builds what weakens it. */
static const char *const *environment_of_helpers(void)
{
    static const char *const none[] = { NULL };

#ifdef VIAL_WEAKEN
    if (getenv("VIAL_TEST_WEAKEN")) /* NOLINT(concurrency-mt-unsafe) */
        return (const char *const *)environ;
#endif
    return none;
}

/* The child has our memory until it executes the program. */
int helper_start(const char *path, const char *const *args, const int *fds,
                 size_t count)
{
    int pidfd = -1;
    struct clone_args how = { .flags = CLONE_PIDFD | CLONE_VFORK,
                              .pidfd = (uint64_t)(uintptr_t)&pidfd };
    struct birth *b = aligned_alloc(16, sizeof(*b));
    long pid;

    if (!b)
        return -ENOMEM;
    b->path = path;
    b->args = args;
    b->env = environment_of_helpers();
    b->fds = fds;
    b->count = count;
    pid = raw_spawn(&how, b->stack, become, b);
    free(b);
    return pid < 0 ? (int)pid : pidfd;
}

void helper_end(int *pidfd)
{
    siginfo_t info;

    if (*pidfd < 0)
        return;
    (void)sys_pidfd_kill(*pidfd, SIGKILL);
    while (waitid(P_PIDFD, (id_t)*pidfd, &info, WEXITED | __WALL) < 0 && errno == EINTR)
        ;
    auto_fd_(pidfd);
    *pidfd = -1;
}
