/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/native/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/membership.h"
#include "base/owner.h"
#include "wire/weaken.h"

#define NO_DIR                                                                         \
    (struct cgroup_dir)                                                                \
    {                                                                                  \
        -1, -1, -1                                                                     \
    }
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
static int cgroup_v2_open_base(struct cgroup *c, const char *text)
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

static void cgroup_v2_read(const struct cgroup *c, struct vessel_usage *out)
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

uint64_t cgroup_parse(const char *text, const char *key, uint64_t fallback)
{
    const char *at = text;
    size_t len = key ? strlen(key) : 0;

    while (key && at && !(strncmp(at, key, len) == 0 && at[len] == ' ')) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    at = at && key ? at + len + 1 : at;
    return at && *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : fallback;
}

uint64_t cgroup_number(int dir_fd, const char *name, const char *key, uint64_t fallback)
{
    char text[4096];

    if (dir_fd < 0 || io_read_at(dir_fd, name, text, sizeof(text)) < 0)
        return fallback;
    return cgroup_parse(text, key, fallback);
}

int cgroup_set(int dir_fd, const char *name, int64_t value, bool may_miss,
               struct vial_error *err)
{
    char text[32];
    int rc = 0;

    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    rc = io_write_at(dir_fd, name, text);
    if (rc == 0 || (may_miss && (rc == -ENOENT || rc == -EOPNOTSUPP)))
        return 0;
    return fail_sys_rc(err, rc, "set cgroup limit '%s' to %s", name, text);
}

void cgroup_forget(struct cgroup *c)
{
    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < CGROUP_DIRS; i++)
        c->dirs[i] = NO_DIR;
    for (size_t i = 0; i < CGROUP_COUNTERS; i++)
        c->counter_fds[i] = -1;
}

static bool is_absence(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM ||
           error == EROFS || error == ENODEV;
}

int cgroup_open_dir(struct cgroup *c, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 && !is_absence(errno))
        c->error = errno;
    return fd;
}

bool cgroup_is_v2(void)
{
    struct statfs fs;

    return statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

int cgroup_open_base(struct cgroup *c)
{
    char text[4096];
    struct statfs fs;
    ssize_t rc = 0;

    cgroup_forget(c);
    rc = io_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text));
    if (rc < 0 || (statfs("/sys/fs/cgroup", &fs) < 0 && (rc = -errno) < 0)) {
        (void)snprintf(c->why, sizeof(c->why), "no cgroup file system is mounted");
        c->error = is_absence((int)-rc) ? 0 : (int)-rc;
        return -1;
    }
    if (fs.f_type == CGROUP2_SUPER_MAGIC) {
        c->kind = CGROUP_V2;
        return cgroup_v2_open_base(c, text);
    }
    c->kind = CGROUP_V1;
    return cgroup_v1_open_base(c, text);
}

void cgroup_close(struct cgroup *c)
{
    for (size_t i = 0; i < CGROUP_DIRS; i++) {
        struct cgroup_dir *d = &c->dirs[i];

        auto_fd_(&d->join_fd);
        auto_fd_(&d->fd);
        if (!c->borrowed)
            auto_fd_(&d->base_fd);
        *d = NO_DIR;
    }
    for (size_t i = 0; i < CGROUP_COUNTERS; i++) {
        auto_fd_(&c->counter_fds[i]);
        c->counter_fds[i] = -1;
    }
    c->kind = CGROUP_NONE;
}

/* EEXIST: cpu and cpuacct may be one hierarchy under two names. */
static int make_dir(struct cgroup *c, struct cgroup_dir *d)
{
    bool made = mkdirat(d->base_fd, c->name, 0755) == 0;

    if (!made && errno != EEXIST)
        return -errno;
    d->fd = openat(d->base_fd, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0)
        return -errno;
    if (c->kind == CGROUP_V1)
        d->join_fd = openat(d->fd, "tasks", O_WRONLY | O_CLOEXEC);
    return c->kind == CGROUP_V1 && d->join_fd < 0 ? -errno : 0;
}

static int make_dirs(struct cgroup *c)
{
    for (size_t i = 0; i < CGROUP_JOINED; i++) {
        int rc = c->dirs[i].base_fd < 0 ? 0 : make_dir(c, &c->dirs[i]);

        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Without a mark it is as good, but for who sweeps from another pid namespace. */
int cgroup_name(struct cgroup *c, const char *vessel_id)
{
    char id[64];
    int bases[CGROUP_DIRS];
    bool marked = false;

    for (size_t i = 0; i < CGROUP_DIRS; i++)
        bases[i] = c->dirs[i].base_fd;
    marked = owner_mark(bases, CGROUP_DIRS) == 0;
    (void)snprintf(id, sizeof(id), "%s%s", marked ? OWNER_MARKED : "", vessel_id);
    return owner_name(id, c->name, sizeof(c->name));
}

/* Whether a second look finds more than the first, which was a fault then and no
 * reason for weaker limits. */
static bool is_more_there(int rc, const struct cgroup *found)
{
    struct cgroup again;
    bool more = false;

    if (rc == 0 && found->complete)
        return false;
    more = cgroup_open_base(&again) == 0 && (rc < 0 || again.complete);
    cgroup_close(&again);
    return more;
}

int cgroup_find(const char *vessel_id, struct cgroup *out, struct vial_error *err)
{
    int rc = cgroup_open_base(out);
    int error = out->error;

    if (!error && is_more_there(rc, out))
        error = EAGAIN;
    if (rc == 0 && !error && cgroup_name(out, vessel_id) < 0)
        return fail(err, VIAL_E_INTERNAL, "name the vessel's cgroup");
    if (rc == 0 && !error)
        return 0;
    cgroup_close(out);
    return error ? fail_sys_rc(err, -error, "find our own cgroup") : 0;
}

/* Whether we may make groups in what was found. */
static bool is_writable(const struct cgroup *c)
{
    for (size_t i = 0; i < CGROUP_JOINED; i++) {
        if (c->dirs[i].base_fd >= 0 &&
            faccessat(c->dirs[i].base_fd, ".", W_OK, AT_EACCESS) < 0)
            return false;
    }
    return true;
}

int cgroup_create(struct cgroup *c, const struct limits *limits, struct vial_error *err)
{
    int rc = 0;

    if (c->kind == CGROUP_NONE)
        return 0;
    rc = make_dirs(c);
    if (rc < 0) {
        bool absent = is_absence(-rc) && !is_writable(c);

        (void)snprintf(c->why, sizeof(c->why), "cgroup cannot be created: %s",
                       strerror(-rc)); /* NOLINT(concurrency-mt-unsafe) */
        cgroup_remove(c);
        return absent ? 0 : fail_sys_rc(err, rc, "create the vessel's cgroup");
    }
    rc = c->kind == CGROUP_V2 ? cgroup_v2_limit(c, limits, err)
                              : cgroup_v1_limit(c, limits, err);
    if (rc < 0)
        cgroup_remove(c);
    return rc;
}

void cgroup_weigh(const struct cgroup *c, unsigned percent)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", percent); /* the usual weight is 100 */
    if (c->kind == CGROUP_V2)
        (void)io_write_at(c->dirs[0].fd, "cpu.weight", text);
    else if (c->kind == CGROUP_V1)
        cgroup_v1_weigh(c, percent);
}

bool cgroup_await(int dir_fd, const char *name, const char *text, int ms)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    char now[512];

    for (int i = 0; i < ms; i++) {
        char *save = NULL;

        if (io_read_at(dir_fd, name, now, sizeof(now)) < 0)
            return false;
        for (char *line = strtok_r(now, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save))
            if (strcmp(line, text) == 0)
                return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

static int cgroup_v2_freeze(const struct cgroup *c, bool still, struct vial_error *err)
{
    int fd = c->dirs[0].fd;

    if (cgroup_set(fd, "cgroup.freeze", still, false, err) < 0)
        return -1;
    if (cgroup_await(fd, "cgroup.events", still ? "frozen 1" : "frozen 0",
                     CGROUP_FREEZE_MS))
        return 0;
    (void)cgroup_set(fd, "cgroup.freeze", 0, false, NULL);
    return fail(err, VIAL_E_BUSY, "a process of the vessel cannot be stopped now");
}

int cgroup_freeze(const struct cgroup *c, bool still, struct vial_error *err)
{
    if (c->kind == CGROUP_V2)
        return cgroup_v2_freeze(c, still, err);
    if (c->kind == CGROUP_V1 && c->dirs[CGROUP_JOINED].base_fd >= 0)
        return cgroup_v1_freeze(c, still, err);
    (void)fail(err, VIAL_E_UNSUPPORTED,
               "this vessel has no control group to stop it by");
    return fail_remedy(err,
                       "run the daemon as root, or give its user a delegated cgroup "
                       "(version 2)");
}

/* More than there is: the kernel takes what it can get. */
void cgroup_reclaim(const struct cgroup *c)
{
    char path[sizeof(c->name) + 32];

    if (c->kind == CGROUP_V2)
        (void)io_write_at(c->dirs[0].fd, "memory.reclaim", "1T");
    (void)snprintf(path, sizeof(path), "%s/memory.force_empty", c->name);
    if (c->kind == CGROUP_V1)
        (void)io_write_at(c->dirs[0].base_fd, path, "0");
}

void cgroup_read(const struct cgroup *c, struct vessel_usage *out)
{
    if (c->kind == CGROUP_V2)
        cgroup_v2_read(c, out);
    else if (c->kind == CGROUP_V1)
        cgroup_v1_read(c, out);
}

/* Files in memory that can be given back: not those of a tmpfs. */
static void read_memory(int fd, const char *now, const char *cache,
                        struct vessel_usage *out)
{
    uint64_t files = cgroup_number(fd, "memory.stat", cache, 0);
    uint64_t kept = cgroup_number(fd, "memory.stat", "shmem", 0);

    out->memory_now_bytes = cgroup_number(fd, now, NULL, 0);
    out->memory_cache_bytes = files > kept ? files - kept : 0;
    if (out->memory_cache_bytes > out->memory_now_bytes)
        out->memory_cache_bytes = out->memory_now_bytes; /* it was read later */
}

void cgroup_read_now(const struct cgroup *c, struct vessel_usage *out)
{
    auto_fd int dir = -1;

    if (c->kind == CGROUP_V2 && c->dirs[0].fd >= 0)
        read_memory(c->dirs[0].fd, "memory.current", "file", out);
    if (c->kind != CGROUP_V1 || c->dirs[0].base_fd < 0)
        return;
    /* Held ones have closed their own; memory is the first of them. */
    dir = openat(c->dirs[0].base_fd, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    read_memory(dir, "memory.usage_in_bytes", "cache", out);
}

/* Version 2: the vessel's directory; else a bit for each counter. */
#define LENT_DIR (1u << 31)

size_t cgroup_lend(const struct cgroup *c, int fds[CGROUP_COUNTERS], uint32_t *which)
{
    size_t count = 0;

    *which = c->kind == CGROUP_V2 ? LENT_DIR : 0;
    if (c->kind == CGROUP_V2)
        fds[count++] = c->dirs[0].fd;
    for (unsigned i = 0; i < CGROUP_COUNTERS && c->kind == CGROUP_V1; i++)
        if (c->counter_fds[i] >= 0) {
            *which |= 1u << i;
            fds[count++] = c->counter_fds[i];
        }
    return count;
}

int cgroup_borrow(struct cgroup *out, int *fds, size_t count, uint32_t which)
{
    bool dir = which == LENT_DIR;
    size_t next = 0;

    if (count == 0 || (size_t)__builtin_popcount(which) != count ||
        (!dir && which >> CGROUP_COUNTERS))
        return -1;
    cgroup_forget(out);
    out->kind = dir ? CGROUP_V2 : CGROUP_V1;
    if (dir)
        out->dirs[0].fd = fd_take(&fds[next++]);
    for (unsigned i = 0; i < CGROUP_COUNTERS && !dir; i++)
        if ((which >> i) & 1u)
            out->counter_fds[i] = fd_take(&fds[next++]);
    return 0;
}

enum cgroup_kind cgroup_probe(char *why)
{
    struct cgroup c;
    enum cgroup_kind kind = CGROUP_NONE;

    if (cgroup_open_base(&c) == 0)
        kind = c.kind;
    if (kind && !is_writable(&c)) {
        kind = CGROUP_NONE;
        (void)snprintf(c.why, sizeof(c.why), "our own cgroup is not writable");
    }
    (void)snprintf(why, sizeof(c.why), "%s", c.why);
    cgroup_close(&c);
    return kind;
}

void cgroup_joined(struct cgroup *c)
{
    for (size_t i = 0; i < CGROUP_DIRS; i++) {
        auto_fd_(&c->dirs[i].join_fd);
        c->dirs[i].join_fd = -1;
    }
}

bool cgroup_unlink(const struct cgroup *c)
{
    bool gone = true;

    for (size_t i = CGROUP_DIRS; i-- > 0;) {
        if (c->dirs[i].base_fd >= 0 && c->name[0] &&
            unlinkat(c->dirs[i].base_fd, c->name, AT_REMOVEDIR) < 0 && errno == EBUSY)
            gone = false;
    }
    return gone;
}

void cgroup_remove(struct cgroup *c)
{
    (void)cgroup_unlink(c);
    cgroup_close(c);
}
