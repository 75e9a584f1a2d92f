/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "driver/native/cgroup.h"
#include "wire/weaken.h"

#define PERIOD_US 100000

enum { MEMORY, PIDS, CPU, CPUACCT };

const char *const cgroup_v1_names[CGROUP_DIRS] = { "memory", "pids", "cpu", "cpuacct" };

/* Inside a container the mount may show our own group as its root. */
static int open_own(struct cgroup *c, const char *text, const char *controller)
{
    char own[PATH_MAX - 64];
    char path[PATH_MAX];
    int fd = -1;

    if (cgroup_own_path(text, controller, own, sizeof(own)) < 0)
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
        c->complete = c->complete && i == CPUACCT;
        (void)snprintf(c->why, sizeof(c->why), "cgroup controller '%s' is not mounted",
                       cgroup_v1_names[i]);
    }
    return c->dirs[MEMORY].base_fd >= 0 && c->dirs[PIDS].base_fd >= 0 ? 0 : -1;
}

int cgroup_v1_limit(const struct cgroup *c, const struct limits *l,
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

void cgroup_v1_read(const struct cgroup *c, struct vessel_usage *out)
{
    int memory = c->dirs[MEMORY].fd;
    int cpuacct = c->dirs[CPUACCT].fd;
    struct vial_usage *u = &out->usage;

    out->counted = cpuacct >= 0;
    out->oom_kills = cgroup_number(memory, "memory.oom_control", "oom_kill", 0);
    out->pids_events = cgroup_number(c->dirs[PIDS].fd, "pids.events", "max", 0);
    u->memory_peak_bytes = cgroup_number(memory, "memory.max_usage_in_bytes", NULL, 0);
    u->pids_peak = cgroup_number(c->dirs[PIDS].fd, "pids.peak", NULL, 0);
    u->pids_peak -= u->pids_peak > 0 ? 1 : 0; /* the guest */
    u->cpu_user_ms =
        (double)cgroup_number(cpuacct, "cpuacct.usage_user", NULL, 0) / 1e6;
    u->cpu_system_ms =
        (double)cgroup_number(cpuacct, "cpuacct.usage_sys", NULL, 0) / 1e6;
    u->throttled_ms =
        (double)cgroup_number(c->dirs[CPU].fd, "cpu.stat", "throttled_time", 0) / 1e6;
}
