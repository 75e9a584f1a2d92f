/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/limit_table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/membership.h"
#include "base/owner.h"

#define MOUNT    "/sys/fs/cgroup"
#define FIRST_NS 20000     /* the last of a group may need a moment to be gone, */
#define LAST_NS  (1 << 24) /* and is looked after so often at least, */
#define TRIES    2000      /* half a minute in all */

struct limit {
    const char *file, *value;
    bool may_miss;
};

struct hierarchy {
    const char *name, *join;
    struct limit limits[4];
};

/* The limits that vial gives to a request without limits of its own. */
static const struct hierarchy v1[BENCH_GROUPS] = {
    { "memory",
      "tasks",
      { { "memory.limit_in_bytes", "536870912", false },
        { "memory.memsw.limit_in_bytes", "536870912", true },
        { "memory.swappiness", "0", true },
        { "memory.kmem.tcp.limit_in_bytes", "536870912", true } } },
    { "pids", "tasks", { { "pids.max", "129", false } } },
    { "cpu", "tasks", { { "cpu.cfs_quota_us", "100000", false } } },
    { "cpuacct", "tasks", { { NULL, NULL, false } } },
};

static const struct hierarchy v2 = { "",
                                     "cgroup.procs",
                                     { { "memory.max", "536870912", false },
                                       { "memory.swap.max", "0", true },
                                       { "pids.max", "129", false },
                                       { "cpu.max", "100000 100000", false } } };

/* Inside a container the mount may show our own group as its root. -errno. */
static int open_base(const char *text, const struct hierarchy *h)
{
    char own[PATH_MAX - 64];
    char path[PATH_MAX];
    int fd = -1;

    if (membership_path(text, h->name, own, sizeof own) < 0)
        return -ENOENT;
    (void)snprintf(path, sizeof path, MOUNT "%s%s%s", h->name[0] ? "/" : "", h->name,
                   own);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(path, sizeof path, MOUNT "/%s", h->name);
    if (fd < 0)
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static const struct hierarchy *hierarchy_of(const struct bench_limits *l, size_t i)
{
    if (l->is_v2)
        return i == 0 ? &v2 : NULL;
    return &v1[i];
}

/* Whether it can be done is told by doing it once. */
int bench_limits_open(struct bench_limits *l, struct vial_error *err)
{
    char text[4096];
    struct bench_group g;
    struct statfs fs;
    int rc = (int)io_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);

    l->is_v2 = statfs(MOUNT, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
    for (size_t i = 0; i < BENCH_GROUPS && rc >= 0; i++) {
        const struct hierarchy *h = hierarchy_of(l, i);

        rc = h ? open_base(text, h) : 0;
        l->base_fd[i] = h && rc >= 0 ? rc : -1;
    }
    if (rc >= 0)
        rc = bench_group_make(l, &g);
    if (rc < 0)
        return fail_sys_rc(err, rc, "make a cgroup with limits");
    bench_group_remove(l, &g);
    return 0;
}

void bench_limits_close(struct bench_limits *l)
{
    for (size_t i = 0; i < BENCH_GROUPS; i++)
        auto_fd_(&l->base_fd[i]);
}

static int set_limits(int dir_fd, const struct hierarchy *h)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < 4 && h->limits[i].file; i++) {
        const struct limit *limit = &h->limits[i];

        rc = io_write_at(dir_fd, limit->file, limit->value);
        if (limit->may_miss && (rc == -ENOENT || rc == -EOPNOTSUPP))
            rc = 0;
    }
    return rc;
}

/* Where to join it; or -errno. */
static int make_one(int base_fd, const char *name, const struct hierarchy *h)
{
    auto_fd int dir_fd = -1;
    int rc = 0;

    /* cpu and cpuacct may be one hierarchy under two names. */
    if (mkdirat(base_fd, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    dir_fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = dir_fd < 0 ? -errno : set_limits(dir_fd, h);
    if (rc == 0)
        rc = openat(dir_fd, h->join, O_WRONLY | O_CLOEXEC);
    return rc == -1 ? -errno : rc;
}

int bench_group_make(struct bench_limits *l, struct bench_group *g)
{
    char id[24];
    int rc = 0;

    *g = (struct bench_group){ .join_fd = { -1, -1, -1, -1 } };
    (void)snprintf(id, sizeof id, "bench-%u", atomic_fetch_add(&l->made, 1));
    /* Were we killed, the next vial tidies up as after itself. */
    if (owner_name(id, g->name, sizeof g->name) < 0)
        return -ENAMETOOLONG;
    for (size_t i = 0; i < BENCH_GROUPS && rc >= 0; i++) {
        if (l->base_fd[i] < 0)
            continue;
        rc = make_one(l->base_fd[i], g->name, hierarchy_of(l, i));
        g->join_fd[i] = rc < 0 ? -1 : rc;
    }
    if (rc < 0)
        bench_group_remove(l, g);
    return rc < 0 ? rc : 0;
}

/* Longer each time: it is busy as long as somebody in it dies, who needs the processor.
 */
static void remove_one(int base_fd, const char *name)
{
    struct timespec pause = { .tv_nsec = FIRST_NS };

    for (int i = 0; i < TRIES; i++) {
        if (unlinkat(base_fd, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
            return;
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < LAST_NS)
            pause.tv_nsec *= 2;
    }
}

void bench_group_remove(const struct bench_limits *l, struct bench_group *g)
{
    for (size_t i = 0; i < BENCH_GROUPS; i++) {
        auto_fd_(&g->join_fd[i]);
        if (l->base_fd[i] >= 0)
            remove_one(l->base_fd[i], g->name);
    }
}
