/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/membership.h"
#include "driver/native/cgroup.h"
#include "wire/weaken.h"

#define PERIOD_US    100000
#define USUAL_SHARES 1024u
#define TEXT_MAX     4096 /* of a counter; some eighty processors */

enum { MEMORY, PIDS, CPU, CPUACCT, FREEZER };

const char *const cgroup_v1_names[CGROUP_DIRS] = { "memory", "pids", "cpu", "cpuacct",
                                                   "freezer" };

/* Inside a container the mount may show our own group as its root. */
static int open_own(struct cgroup *c, const char *text, const char *controller)
{
    char own[PATH_MAX - 64];
    char path[PATH_MAX];
    int fd = -1;

    if (membership_path(text, controller, own, sizeof(own)) < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s%s", controller, own);
    fd = cgroup_open_dir(c, path);
    if (fd >= 0)
        return fd;
    (void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", controller);
    return cgroup_open_dir(c, path);
}

int cgroup_v1_open_base(struct cgroup *c, const char *text)
{
    c->complete = true;
    for (size_t i = 0; i < CGROUP_DIRS; i++) {
        c->dirs[i].base_fd = open_own(c, text, cgroup_v1_names[i]);
        if (c->dirs[i].base_fd >= 0)
            continue;
        if (i == FREEZER)
            continue;
        c->complete = c->complete && i == CPUACCT;
        (void)snprintf(c->why, sizeof(c->why), "cgroup controller '%s' is not mounted",
                       cgroup_v1_names[i]);
    }
    return c->dirs[MEMORY].base_fd >= 0 && c->dirs[PIDS].base_fd >= 0 ? 0 : -1;
}

static int set_limits(const struct cgroup *c, const struct limits *l,
                      struct vial_error *err)
{
    int memory = c->dirs[MEMORY].fd;
    int cpu = c->dirs[CPU].fd;

    if (l->memory_bytes &&
        (cgroup_set(memory, "memory.limit_in_bytes", l->memory_bytes, false, err) < 0 ||
         cgroup_set(memory, "memory.memsw.limit_in_bytes", l->memory_bytes, true, err) <
             0 ||
         cgroup_set(memory, "memory.swappiness", 0, true, err) < 0))
        return -1;
    /* Socket buffers are counted only if they have a limit, and apart from the rest. */
    if (l->memory_bytes && cgroup_set(memory, "memory.kmem.tcp.limit_in_bytes",
                                      l->memory_bytes, true, err) < 0)
        return -1;
    /* One more for the guest. */
    if (l->pids &&
        cgroup_set(c->dirs[PIDS].fd, "pids.max", l->pids + 1, false, err) < 0)
        return -1;
    if (l->milli_cpus && cpu >= 0 && !weaken("quota") &&
        cgroup_set(cpu, "cpu.cfs_quota_us", l->milli_cpus * PERIOD_US / 1000, false,
                   err) < 0)
        return -1;
    return 0;
}

/* One that is held has closed its directories. */
int cgroup_v1_limit(const struct cgroup *c, const struct limits *l,
                    struct vial_error *err)
{
    struct cgroup open = *c;
    int rc = 0;

    if (c->counter_fds[0] < 0)
        return set_limits(c, l, err);
    for (size_t i = 0; i < CGROUP_JOINED && rc == 0; i++) {
        int base = c->dirs[i].base_fd;

        open.dirs[i].fd =
            base < 0 ? -1 : openat(base, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (base >= 0 && open.dirs[i].fd < 0)
            rc = fail_sys(err, "open the vessel's cgroup");
    }
    if (rc == 0)
        rc = set_limits(&open, l, err);
    for (size_t i = 0; i < CGROUP_DIRS; i++)
        auto_fd_(&open.dirs[i].fd);
    return rc;
}

void cgroup_v1_weigh(const struct cgroup *c, unsigned percent)
{
    char path[sizeof(c->name) + 16];
    char text[16];

    (void)snprintf(path, sizeof(path), "%s/cpu.shares", c->name);
    (void)snprintf(text, sizeof(text), "%u", percent * USUAL_SHARES / 100);
    (void)io_write_at(c->dirs[CPU].base_fd, path, text);
}

enum { KILLS, REFUSED, MEMORY_PEAK, PIDS_PEAK, TIMES, THROTTLED };

static const struct counter {
    unsigned dir;
    const char *file, *key;
} counters[CGROUP_COUNTERS] = {
    [KILLS] = { MEMORY, "memory.oom_control", "oom_kill" },
    [REFUSED] = { PIDS, "pids.events", "max" },
    [MEMORY_PEAK] = { MEMORY, "memory.max_usage_in_bytes", NULL },
    [PIDS_PEAK] = { PIDS, "pids.peak", NULL },
    [TIMES] = { CPUACCT, "cpuacct.usage_all", NULL },
    [THROTTLED] = { CPU, "cpu.stat", "throttled_time" },
};

/* All of it, as text; bytes, or -1 where it cannot be read or does not fit. */
static ssize_t read_counter(const struct cgroup *c, unsigned which, char *text,
                            size_t size)
{
    const struct counter *at = &counters[which];
    int dir = c->dirs[at->dir].fd;
    ssize_t n = -1;

    if (c->counter_fds[which] >= 0)
        n = pread(c->counter_fds[which], text, size - 1, 0);
    else if (dir >= 0)
        n = io_read_at(dir, at->file, text, size);
    n = n < 0 || (size_t)n >= size - 1 ? -1 : n;
    text[n > 0 ? n : 0] = '\0';
    return n;
}

static uint64_t count(const struct cgroup *c, unsigned which)
{
    char text[TEXT_MAX];

    return read_counter(c, which, text, sizeof(text)) < 0
               ? 0
               : cgroup_parse(text, counters[which].key, 0);
}

int cgroup_v1_parse_times(const char *text, uint64_t times[2])
{
    const char *line = strchr(text, '\n'); /* behind "cpu user system" */

    times[0] = times[1] = 0;
    if (!line)
        return -1;
    while (*line && line[1]) {
        char *at = NULL;

        (void)strtoull(line + 1, &at, 10);
        for (size_t i = 0; i < 2; i++) {
            if (*at != ' ')
                return -1;
            times[i] += strtoull(at, &at, 10);
        }
        if (*at != '\n' && *at != '\0')
            return -1;
        line = at;
    }
    return 0;
}

/* The same by two files, where there are very many processors. */
static void read_sums(const struct cgroup *c, uint64_t times[2])
{
    static const char *const files[2] = { "cpuacct.usage_user", "cpuacct.usage_sys" };
    const struct cgroup_dir *d = &c->dirs[CPUACCT];

    for (size_t i = 0; i < 2; i++) {
        char path[sizeof(c->name) + 32];

        (void)snprintf(path, sizeof(path), "%s/%s", c->name, files[i]);
        times[i] = d->fd >= 0 ? cgroup_number(d->fd, files[i], NULL, 0)
                              : cgroup_number(d->base_fd, path, NULL, 0);
    }
}

static bool has_processor_time(const struct cgroup *c)
{
    return c->dirs[CPUACCT].fd >= 0 || c->counter_fds[TIMES] >= 0;
}

void cgroup_v1_read_times(const struct cgroup *c, struct vessel_usage *out)
{
    struct vial_usage *u = &out->usage;
    uint64_t times[2] = { 0 };
    char text[TEXT_MAX];

    out->counted = has_processor_time(c);
    if (out->counted && (read_counter(c, TIMES, text, sizeof(text)) < 0 ||
                         cgroup_v1_parse_times(text, times) < 0)) {
        out->counted = c->dirs[CPUACCT].fd >= 0 || c->dirs[CPUACCT].base_fd >= 0;
        if (out->counted)
            read_sums(c, times);
    }
    u->cpu_user_ms = (double)times[0] / 1e6;
    u->cpu_system_ms = (double)times[1] / 1e6;
    u->throttled_ms = (double)count(c, THROTTLED) / 1e6;
}

void cgroup_v1_read(const struct cgroup *c, struct vessel_usage *out)
{
    struct vial_usage *u = &out->usage;

    cgroup_v1_read_times(c, out);
    out->oom_kills = count(c, KILLS);
    out->pids_events = count(c, REFUSED);
    u->memory_peak_bytes = count(c, MEMORY_PEAK);
    u->pids_peak = count(c, PIDS_PEAK);
    u->pids_peak -= u->pids_peak > 0 ? 1 : 0; /* the guest */
}

static void close_counters(int *fds)
{
    for (size_t i = 0; i < CGROUP_COUNTERS; i++) {
        auto_fd_(&fds[i]);
        fds[i] = -1;
    }
}

/* Older kernels do not have all of them. */
int cgroup_v1_hold(struct cgroup *c)
{
    for (size_t i = 0; i < CGROUP_COUNTERS; i++) {
        int dir = c->dirs[counters[i].dir].fd;

        c->counter_fds[i] =
            dir < 0 ? -1 : openat(dir, counters[i].file, O_RDONLY | O_CLOEXEC);
        if (dir >= 0 && c->counter_fds[i] < 0 && errno != ENOENT) {
            int rc = -errno;

            close_counters(c->counter_fds);
            return rc;
        }
    }
    for (size_t i = 0; i < CGROUP_DIRS; i++) {
        auto_fd_(&c->dirs[i].fd);
        c->dirs[i].fd = -1;
    }
    return 0;
}

#define MEMBERS_MAX (64u << 10) /* of a list of processes, as text */
#define PASSES      100
#define TRIES       40
#define TRY_MS      50

static bool has_line(const char *text, const char *line)
{
    size_t len = strlen(line);

    for (const char *at = text; (at = strstr(at, line)); at++)
        if ((at == text || at[-1] == '\n') && (at[len] == '\n' || !at[len]))
            return true;
    return false;
}

/* Moves whoever is in the vessel's group of processes, and not there yet. A process
 * that is frozen starts no other. How many were moved; -1: the list cannot be read. */
static int move_members(int from, const char *name, int to)
{
    char path[sizeof(((struct cgroup *)0)->name) + 16];
    auto_free char *text = malloc(MEMBERS_MAX);
    auto_free char *there = malloc(MEMBERS_MAX);
    char *save = NULL;
    int moved = 0;

    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", name);
    if (!text || !there || io_read_at(from, path, text, MEMBERS_MAX) < 0 ||
        io_read_at(to, "cgroup.procs", there, MEMBERS_MAX) < 0)
        return -1;
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        if (!has_line(there, line))
            moved += io_write_at(to, "cgroup.procs", line) == 0;
    }
    return moved;
}

static bool freeze_once(const struct cgroup *c, int fd)
{
    int moved = 1;

    if (io_write_at(fd, "freezer.state", "FROZEN") < 0)
        return false;
    for (int i = 0; moved > 0 && i < PASSES; i++)
        moved = move_members(c->dirs[PIDS].base_fd, c->name, fd);
    return moved == 0 && cgroup_await(fd, "freezer.state", "FROZEN", TRY_MS);
}

static bool thaw(int fd)
{
    return io_write_at(fd, "freezer.state", "THAWED") == 0 &&
           cgroup_await(fd, "freezer.state", "THAWED", CGROUP_FREEZE_MS);
}

/* Some cannot be stopped for a moment: one that is ending stays where it is, though the
 * kernel says that it was moved; one that waits in vfork waits on if its child was
 * stopped first. So all go on, and are stopped again. */
static bool freeze(const struct cgroup *c, int fd)
{
    const struct timespec pause = { .tv_nsec = 1000000 };

    for (int i = 0; i < TRIES; i++) {
        if (freeze_once(c, fd))
            return true;
        if (!thaw(fd))
            return false;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

/* Its group in the freezer's hierarchy is made when it is first needed: most vessels
 * never pause. */
int cgroup_v1_freeze(const struct cgroup *c, bool still, struct vial_error *err)
{
    int base = c->dirs[FREEZER].base_fd;
    auto_fd int fd = -1;

    if (still && mkdirat(base, c->name, 0755) < 0 && errno != EEXIST) {
        (void)fail_sys(err, "make the vessel's freezer");
        return fail_as(err, VIAL_E_UNSUPPORTED);
    }
    fd = openat(base, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_sys(err, "open the vessel's freezer");
    if (still && freeze(c, fd))
        return 0;
    if (!thaw(fd))
        return fail(err, VIAL_E_OPEN, "the vessel's freezer does not let go");
    return still
               ? fail(err, VIAL_E_BUSY, "a process of the vessel cannot be stopped now")
               : 0;
}
