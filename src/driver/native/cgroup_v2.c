/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/membership.h"
#include "driver/native/cgroup.h"
#include "wire/weaken.h"

#define MOUNT     "/sys/fs/cgroup"
#define PERIOD_US 100000

static bool has_word(const char *text, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = text; (at = strstr(at, word)); at += len) {
        if ((at == text || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    }
    return false;
}

/* Whether a group made in FD would have memory and pids. Only in our own group
 * (OURS) may we switch controllers on: elsewhere that is somebody's decision. */
static bool gives_controllers(int fd, bool ours, bool *with_cpu)
{
    char text[512] = "";

    if (ours)
        (void)io_write_at(fd, "cgroup.subtree_control", "+memory +pids +cpu");
    if (io_read_at(fd, "cgroup.subtree_control", text, sizeof(text)) < 0)
        return false;
    *with_cpu = has_word(text, "cpu");
    return has_word(text, "memory") && has_word(text, "pids");
}

/* A group with processes cannot have limited children (but the root can), so
 * the place is our own group or the nearest one above that lets us. */
int cgroup_v2_open_base(struct cgroup *c, const char *text)
{
    char own[PATH_MAX - 64];
    char path[PATH_MAX];
    bool ours = true;

    if (membership_path(text, "", own, sizeof(own)) < 0 || strstr(own, ".."))
        return -1;
    for (;;) {
        int fd = -1;

        (void)snprintf(path, sizeof(path), MOUNT "%s", own);
        fd = cgroup_open_dir(c, path);
        if (fd >= 0 && faccessat(fd, ".", W_OK, AT_EACCESS) == 0 &&
            faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) == 0 &&
            gives_controllers(fd, ours, &c->complete)) {
            c->dirs[0].base_fd = fd;
            return 0;
        }
        if (fd >= 0)
            (void)close(fd);
        if (own[0] == '\0' || strcmp(own, "/") == 0)
            break;
        *strrchr(own, '/') = '\0';
        ours = false;
    }
    (void)snprintf(c->why, sizeof(c->why),
                   "no cgroup above us is writable with memory and pids delegated");
    return -1;
}

static int set_cpu(int fd, int64_t milli, struct vial_error *err)
{
    char text[64];
    int rc = 0;

    (void)snprintf(text, sizeof(text), "%lld %d", (long long)(milli * PERIOD_US / 1000),
                   PERIOD_US);
    rc = io_write_at(fd, "cpu.max", text);
    return rc < 0 ? fail_sys_rc(err, rc, "set cgroup limit 'cpu.max' to %s", text) : 0;
}

int cgroup_v2_limit(const struct cgroup *c, const struct limits *l,
                    struct vial_error *err)
{
    int fd = c->dirs[0].fd;

    if (l->memory_bytes &&
        (cgroup_set(fd, "memory.max", l->memory_bytes, false, err) < 0 ||
         cgroup_set(fd, "memory.swap.max", 0, true, err) < 0))
        return -1;
    /* One more for the guest. */
    if (l->pids && cgroup_set(fd, "pids.max", l->pids + 1, false, err) < 0)
        return -1;
    return l->milli_cpus && c->complete && !weaken("quota")
               ? set_cpu(fd, l->milli_cpus, err)
               : 0;
}

void cgroup_v2_read(const struct cgroup *c, struct vessel_usage *out)
{
    int fd = c->dirs[0].fd;
    struct vial_usage *u = &out->usage;

    out->counted = true;
    out->oom_kills = cgroup_number(fd, "memory.events", "oom_kill", 0);
    out->pids_events = cgroup_number(fd, "pids.events", "max", 0);
    u->memory_peak_bytes = cgroup_number(fd, "memory.peak", NULL, 0);
    u->pids_peak = cgroup_number(fd, "pids.peak", NULL, 0);
    u->pids_peak -= u->pids_peak > 0 ? 1 : 0; /* the guest */
    u->cpu_user_ms = (double)cgroup_number(fd, "cpu.stat", "user_usec", 0) / 1e3;
    u->cpu_system_ms = (double)cgroup_number(fd, "cpu.stat", "system_usec", 0) / 1e3;
    u->throttled_ms = (double)cgroup_number(fd, "cpu.stat", "throttled_usec", 0) / 1e3;
}
