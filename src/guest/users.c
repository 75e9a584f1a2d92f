/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A user namespace for programs alone. The kernel holds RLIMIT_NPROC against all
 * processes of a user on the host, but counts those of each user namespace apart: in
 * one of their own, programs are counted and nobody else is.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/guest.h"

/* Before Linux 5.14 they were counted together. */
static bool counts_apart(void)
{
    struct utsname u;
    char *end = NULL;
    unsigned long major = 0;

    if (uname(&u) < 0)
        return false;
    major = strtoul(u.release, &end, 10);
    return major > 5 || (major == 5 && *end == '.' && strtoul(end + 1, NULL, 10) >= 14);
}

static bool put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        (void)close(fd);
    return done;
}

/* Each id is itself there, so that files belong to whom they did. */
static bool map_self(const char *path, unsigned id)
{
    char text[40];

    (void)snprintf(text, sizeof text, "%u %u 1", id, id);
    return put(path, text);
}

/* Its namespace is what it is for. Apart from the guest's memory, so that it may be
 * dumpable, to whom alone its own files in /proc belong. */
static _Noreturn void stand_in(const struct guest *g, int fd)
{
    unsigned uid = getuid(), gid = getgid();

    /* The limit that the guest has now bounds the whole namespace for good. */
    if (setrlimit(RLIMIT_SIGPENDING, &g->pending) == 0 &&
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 && unshare(CLONE_NEWUSER) == 0 &&
        put("/proc/self/setgroups", "deny") && map_self("/proc/self/uid_map", uid) &&
        map_self("/proc/self/gid_map", gid))
        (void)!write(fd, "", 1);
    (void)close(fd);
    for (;;)
        (void)poll(NULL, 0, -1);
}

static int take_namespace(pid_t pid, int fd)
{
    char path[40], byte;

    if (read(fd, &byte, 1) != 1)
        return -1;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int users_make(const struct guest *g)
{
    int ends[2], fd = -1;
    pid_t pid;

    if (!counts_apart() || pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0)
        stand_in(g, ends[1]);
    (void)close(ends[1]);
    if (pid > 0) {
        fd = take_namespace(pid, ends[0]);
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    (void)close(ends[0]);
    return fd;
}

int users_enter(int fd)
{
    return setns(fd, CLONE_NEWUSER) < 0 ? -errno : 0;
}
