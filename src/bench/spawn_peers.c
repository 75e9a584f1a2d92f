/* SPDX-License-Identifier: Apache-2.0 */

/* As posix_spawn starts a process, which cannot let it join a cgroup first. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/path.h"
#include "base/str.h"
#include "bench/bench.h"

static bool join(const struct bench_group *g)
{
    for (size_t i = 0; g && i < BENCH_GROUPS; i++)
        if (g->join_fd[i] >= 0 && write(g->join_fd[i], "0", 1) != 1)
            return false;
    return true;
}

/* System calls only: the memory is its parent's, which waits. FILTER is opened anew, as
 * reading it moves on. */
static _Noreturn void be_child(const struct bench_child *c, const char *filter,
                               char *const *env)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool good = null >= 0 && join(c->group);

    for (int fd = 0; fd < 3; fd++)
        good = good &&
               dup2((fd == 1 && c->out >= 0) || (fd == 0 && c->talks) ? c->out : null,
                    fd) == fd;
    if (good && c->filter_fd >= 0) {
        int fd = open(filter, O_RDONLY | O_CLOEXEC);

        good = fd >= 0 && (fd == BENCH_FILTER_FD ? fcntl(fd, F_SETFD, 0) == 0
                                                 : dup2(fd, BENCH_FILTER_FD) >= 0);
    }
    if (good)
        (void)execve(c->program, (char *const *)(uintptr_t)c->argv, env);
    _exit(127);
}

/* The same environment for all, with the locale that a vessel has. */
int bench_spawn(const struct bench_child *c, pid_t *pid)
{
    char path[] = "PATH=" PATH_SEARCH;
    char lang[] = "LANG=C.UTF-8";
    char filter[32];
    const char *host = getenv("DOCKER_HOST"); /* NOLINT: read only */
    auto_str struct str docker = { 0 };
    char *env[] = { path, lang, NULL, NULL };

    str_printf(&docker, "DOCKER_HOST=%s", host ? host : "");
    env[2] = host && str_ok(&docker) ? docker.data : NULL;
    (void)snprintf(filter, sizeof filter, "/proc/self/fd/%d", c->filter_fd);
    *pid = vfork(); /* NOLINT: a fork would have them all pay for our memory */
    if (*pid == 0)
        be_child(c, filter, env);
    return *pid < 0 ? -errno : 0;
}
