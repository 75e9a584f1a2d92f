/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/owner.h"
#include "base/sys.h"
#include "driver/native/cgroup.h"

/* Whether PID is still in the group open as DIR_FD: a number alone may have
 * become somebody else's. */
static bool still_in(int dir_fd, long pid)
{
    char text[4096];
    char *save = NULL;

    if (io_read_at(dir_fd, "cgroup.procs", text, sizeof(text)) < 0)
        return false;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (strtol(line, NULL, 10) == pid)
            return true;
    }
    return false;
}

static void kill_members(int dir_fd)
{
    char text[4096];
    char *save = NULL;

    if (io_read_at(dir_fd, "cgroup.procs", text, sizeof(text)) < 0)
        return;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        long pid = strtol(line, NULL, 10);
        auto_fd int pidfd = pid > 1 ? sys_pidfd_open((pid_t)pid) : -1;

        if (pidfd >= 0 && still_in(dir_fd, pid))
            (void)sys_pidfd_kill(pidfd, SIGKILL);
    }
}

/* True when one went: of several hierarchies, the first that is looked at takes the
 * others along. */
static bool remove_leftover(const struct cgroup *like, const char *name)
{
    bool gone = false;

    for (size_t i = CGROUP_DIRS; i-- > 0;) {
        int base = like->dirs[i].base_fd;
        auto_fd int fd =
            base < 0 ? -1 : openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
            continue;
        if (unlinkat(base, name, AT_REMOVEDIR) == 0) {
            gone = true;
            continue;
        }
        kill_members(fd);
        gone |= unlinkat(base, name, AT_REMOVEDIR) == 0;
    }
    return gone;
}

/* Of an owner in another pid namespace, which ended as a whole, its janitor with it.
 * Whoever may be in it still is not ours to judge: then it is not removed either. */
static bool remove_abandoned(const struct cgroup *like, const char *name)
{
    bool gone = false;

    for (size_t i = CGROUP_DIRS; i-- > 0;) {
        int base = like->dirs[i].base_fd;

        if (base >= 0 && owner_has_left(base, name))
            gone |= unlinkat(base, name, AT_REMOVEDIR) == 0;
    }
    return gone;
}

static unsigned sweep_dir(const struct cgroup *like, int fd, unsigned max)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(openat(fd, ".", O_RDONLY | O_CLOEXEC));
    const struct dirent *entry = NULL;
    unsigned gone = 0;
    char mine[32];

    (void)snprintf(mine, sizeof(mine), "-%d-", (int)getpid());
    /* readdir is safe here: nobody else has this stream. */
    while (dir && max && (entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe) */
        if (strncmp(entry->d_name, "vial-", 5) != 0 || strstr(entry->d_name, mine))
            continue;
        max--;
        if (owner_is_dead(entry->d_name))
            gone += remove_leftover(like, entry->d_name);
        else if (owner_has_left(fd, entry->d_name))
            gone += remove_abandoned(like, entry->d_name);
    }
    if (dir)
        (void)closedir(dir);
    return gone;
}

unsigned cgroup_sweep(const struct cgroup *like, unsigned max)
{
    unsigned gone = 0;
    size_t turn = (size_t)getpid() % CGROUP_DIRS;

    for (size_t i = 0; i < CGROUP_DIRS; i++) {
        if (max == ~0u || i == turn)
            gone += sweep_dir(like, like->dirs[i].base_fd, max);
    }
    return gone;
}
