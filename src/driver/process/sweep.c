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
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "driver/process/process.h"

#define ROUNDS      16 /* each catches what was born during the one before */
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

/* The descriptor holds the process that is judged, whoever gets its number. */
static bool kill_if_ours(int proc_fd, const char *text, const char *dir)
{
    pid_t pid = (pid_t)strtol(text, NULL, 10);

    if (pid <= 1 || pid == getpid())
        return false;
    auto_fd int fd = sys_pidfd_open(pid);
    if (fd < 0 || (!works_in(proc_fd, pid, dir) && !was_started_in(proc_fd, pid, dir)))
        return false;
    return sys_pidfd_kill(fd, SIGKILL) == 0;
}

static bool sweep_once(const char *dir)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    bool found = false;

    if (!proc)
        return false;
    while ((entry = readdir(proc)) != NULL) /* NOLINT(concurrency-mt-unsafe) */
        if (isdigit((unsigned char)entry->d_name[0]) &&
            kill_if_ours(dirfd(proc), entry->d_name, dir))
            found = true;
    (void)closedir(proc);
    return found;
}

void sweep_processes(const char *dir)
{
    for (int i = 0; i < ROUNDS && sweep_once(dir); i++)
        ;
}
