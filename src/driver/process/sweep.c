/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Programs of this driver run as the caller's own user, so that they can stop or
 * kill the guest, whose task it is to end them. This finds what is then left by
 * its traces: the vessel's directory in the environment it was started with, or
 * as its working directory. A program that has wiped both escapes; that is what
 * level "none" means.
 */

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "driver/process/process.h"

/* For what was killed to be gone, and for who is born meanwhile. */
#define PATIENCE_MS 5000
#define LOOK_MS     50 /* until the next round, if nothing ends before */
#define ENVIRON_MAX (256u << 10)

static bool works_in(int proc_fd, pid_t pid, const char *dir)
{
    char name[32], target[4096];
    ssize_t n;

    (void)snprintf(name, sizeof name, "%d/cwd", pid);
    n = readlinkat(proc_fd, name, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    return path_is_beneath(target, dir);
}

static bool was_started_in(int proc_fd, pid_t pid, const char *dir)
{
    auto_free char *data = malloc(ENVIRON_MAX);
    char name[32];
    ssize_t n;

    (void)snprintf(name, sizeof name, "%d/environ", pid);
    auto_fd int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !data)
        return false;
    n = read(fd, data, ENVIRON_MAX);
    return n > 0 && memmem(data, (size_t)n, dir, strlen(dir)) != NULL;
}

/* The descriptor holds the process that is judged, whoever gets its number. Gives that
 * of one that was killed, or -1. */
static int kill_if_ours(int proc_fd, const char *text, const char *dir)
{
    pid_t pid = (pid_t)strtol(text, NULL, 10);

    if (pid <= 1 || pid == getpid())
        return -1;
    auto_fd int fd = sys_pidfd_open(pid);
    if (fd < 0 || (!works_in(proc_fd, pid, dir) && !was_started_in(proc_fd, pid, dir)))
        return -1;
    return sys_pidfd_kill(fd, SIGKILL) == 0 ? fd_take(&fd) : -1;
}

/* One of those that were found and killed, or -1. */
static int sweep_once(const char *dir)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    int killed = -1;

    if (!proc)
        return -1;
    while ((entry = readdir(proc)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        int fd = isdigit((unsigned char)entry->d_name[0])
                     ? kill_if_ours(dirfd(proc), entry->d_name, dir)
                     : -1;

        if (fd >= 0) {
            auto_fd_(&killed);
            killed = fd;
        }
    }
    (void)closedir(proc);
    return killed;
}

/* Until none is found: what is killed is not gone before it has been run once more. */
void sweep_processes(const char *dir)
{
    int64_t until_ns = clock_now_ns() + INT64_C(1000000) * PATIENCE_MS;

    while (clock_now_ns() < until_ns) {
        auto_fd int killed = sweep_once(dir);
        struct pollfd end = { .fd = killed, .events = POLLIN };

        if (killed < 0)
            return;
        (void)poll(&end, 1, LOOK_MS);
    }
}
