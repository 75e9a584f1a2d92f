/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of which the kernel sends no event: memory that no process has mapped, files
 * as large as one may be, and small file systems that ran full.
 */

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guest/guest.h"

#define SHORTEST_NS UINT64_C(50000)
#define QUIET_NS    UINT64_C(2000000) /* the shortest while nothing is written */
#define BUSY_NS     UINT64_C(5000000) /* after something was written */
#define LONGEST_NS  UINT64_C(20000000)
#define SMALL       (UINT64_C(64) << 20)
#define FASTEST     UINT64_C(8000000) /* bytes a millisecond: more than a core writes */

/* Memory that no process has mapped: System V messages, semaphores and segments. Where
 * a cgroup holds the limit it counts them. Elsewhere they can be seen from inside their
 * namespace only, and we hold the same limit for them. */

/* The kernel's memory for each, as a round number. */
#define OF_MESSAGE   64u
#define OF_SEMAPHORE 128u
#define OF_OBJECT    1024u

static uint64_t messages(void)
{
    struct msginfo info = { 0 };

    if (msgctl(0, MSG_INFO, (struct msqid_ds *)(void *)&info) < 0)
        return 0;
    return (uint64_t)(unsigned)info.msgtql +
           (uint64_t)(unsigned)info.msgmap * OF_MESSAGE +
           (uint64_t)(unsigned)info.msgpool * OF_OBJECT;
}

static uint64_t semaphores(void)
{
    struct seminfo info = { 0 };

    if (semctl(0, 0, SEM_INFO, &info) < 0)
        return 0;
    return (uint64_t)(unsigned)info.semaem * OF_SEMAPHORE +
           (uint64_t)(unsigned)info.semusz * OF_OBJECT;
}

static uint64_t segments(void)
{
    struct shm_info info = { 0 };

    if (shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info) < 0)
        return 0;
    return (uint64_t)info.shm_rss * (uint64_t)sysconf(_SC_PAGESIZE) +
           (uint64_t)(unsigned)info.used_ids * OF_OBJECT;
}

/* Whether that is more than `memory`, where we are the only ones who can see it. */
static bool unmapped_too_much(const struct guest *g)
{
    /* Where a cgroup holds the limit, there is no rlimit for it. A guest that is not
     * pid 1 has no namespaces: it would count the host's. */
    uint64_t limit = g->pid1 ? jail_rlimit(g, RLIMIT_DATA) : UINT64_MAX;

    return limit != UINT64_MAX && messages() + semaphores() + segments() > limit;
}

/* Whether a file has the largest size that a file may have: the kernel cuts a write
 * there, and tells the rest of it to the program only (SIGXFSZ, or EFBIG). So the files
 * that programs left are looked at, where the limit is smaller than what they lie in.
 */

#define DEPTH_MAX   32
#define ENTRIES_MAX 20000

struct search {
    uint64_t size;
    dev_t dev;
    unsigned left;
};

static bool finds(struct search *s, int dir_fd, const char *name, unsigned depth);

static bool finds_below(struct search *s, DIR *dir, unsigned depth)
{
    const struct dirent *entry = NULL;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the guest has one thread */
    while (s->left > 0 && (entry = readdir(dir))) {
        const char *name = entry->d_name;

        s->left--;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
            finds(s, dirfd(dir), name, depth))
            return true;
    }
    return false;
}

static bool finds_in(struct search *s, int dir_fd, const char *name, unsigned depth)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool found = false;

    if (dir) {
        found = finds_below(s, dir, depth);
        (void)closedir(dir);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    return found;
}

/* NOLINTNEXTLINE(misc-no-recursion): it has a depth */
static bool finds(struct search *s, int dir_fd, const char *name, unsigned depth)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != s->dev)
        return false;
    if (S_ISREG(st.st_mode))
        return (uint64_t)st.st_size == s->size;
    return S_ISDIR(st.st_mode) && depth < DEPTH_MAX &&
           finds_in(s, dir_fd, name, depth + 1);
}

bool limit_watch_largest_file(const struct guest *g)
{
    uint64_t size = jail_rlimit(g, RLIMIT_FSIZE);

    for (size_t i = 0; i < g->limit_watch.count; i++) {
        const struct watched *at = &g->limit_watch.at[i];
        struct search s = { .size = size, .dev = at->dev, .left = ENTRIES_MAX };
        struct statfs fs;

        if (fstatfs(at->fd, &fs) < 0 ||
            size >= (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize)
            continue;
        if (finds_in(&s, at->fd, ".", 0))
            return true;
    }
    return false;
}

/* Whether a small file system ran full is known from samples: it is looked at the more
 * often the nearer and the faster it fills, and rarely while nothing is written. What
 * is written at the top of a small file system is told by inotify, and wakes us. */
static bool is_seen_already(const struct limit_watch *w, dev_t dev)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->at[i].dev == dev)
            return true;
    return false;
}

/* The workdir is open already. */
static int open_watched(const struct guest *g, const char *path)
{
    if (g->jail.workdir && strcmp(path, g->jail.workdir) == 0)
        return g->workdir_fd;
    return openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* A tmpfs is ours. So is an overlay in a vessel: its own root's, whose layer, a tmpfs
 * too, is what it tells of. */
static bool is_ours(const struct guest *g, const struct statfs *fs)
{
    return fs->f_blocks && (fs->f_type == TMPFS_MAGIC ||
                            (fs->f_type == OVERLAYFS_SUPER_MAGIC && g->pid1));
}

void limit_watch_open(struct guest *g)
{
    struct limit_watch *w = &g->limit_watch;

    w->next_ns = NEVER;
    w->notify_fd = -1;
    for (size_t i = 0; i < 2; i++) {
        const char *path = g->jail.watch_full[i];
        int fd = path ? open_watched(g, path) : -1;
        struct statfs fs;
        struct stat st;

        if (fd < 0)
            continue;
        if (fstatfs(fd, &fs) == 0 && is_ours(g, &fs) && fstat(fd, &st) == 0 &&
            !is_seen_already(w, st.st_dev)) {
            w->at[w->count++] = (struct watched){ .fd = fd, .dev = st.st_dev };
            w->small[i] = fs.f_blocks < SMALL / (uint64_t)fs.f_bsize;
        } else if (fd != g->workdir_fd) {
            (void)close(fd);
        }
    }
    if (w->count)
        (void)prctl(PR_SET_TIMERSLACK, 1000);
}

/* Only a small one can be full before the next look. The end of an inotify
 * descriptor takes the kernel milliseconds, which every run would wait for. */
void limit_watch_notify(struct guest *g)
{
    struct limit_watch *w = &g->limit_watch;

    for (size_t i = 0; i < 2; i++) {
        if (!w->small[i])
            continue;
        if (w->notify_fd < 0)
            w->notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK); /* or do without */
        (void)inotify_add_watch(w->notify_fd, g->jail.watch_full[i],
                                IN_CREATE | IN_MODIFY);
    }
}

/* Looks at one; true when it is full. */
static bool look(struct watched *at, uint64_t passed_ns)
{
    struct statfs fs;
    uint64_t used;

    if (fstatfs(at->fd, &fs) < 0)
        return false;
    used = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    at->rate = 0;
    if (used > at->used && passed_ns)
        at->rate = (used - at->used) * 1000 / (passed_ns / 1000 + 1);
    at->used = used;
    at->free = (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
    return !fs.f_bfree || (fs.f_files && !fs.f_ffree);
}

/* When this one should be seen again: halfway to being full at the present
 * rate, or at the rate it might reach when nothing moved. */
static uint64_t interval(const struct watched *at, bool busy)
{
    uint64_t rate = at->rate ? at->rate : FASTEST;
    uint64_t shortest = at->rate || busy ? SHORTEST_NS : QUIET_NS;
    uint64_t ns = at->free / 2 * 1000 / (rate / 1000 + 1);

    if (ns < shortest)
        return shortest;
    return ns > LONGEST_NS ? LONGEST_NS : ns;
}

void limit_watch_look(struct guest *g)
{
    struct limit_watch *w = &g->limit_watch;
    uint64_t now = now_ns(), used = 0, wait = LONGEST_NS;
    bool full = false;
    bool starved = unmapped_too_much(g);

    for (size_t i = 0; i < w->count; i++) {
        uint64_t next;

        full |= look(&w->at[i], now - w->last_ns);
        used += w->at[i].used;
        next = interval(&w->at[i], now < w->busy_until_ns);
        wait = next < wait ? next : wait;
    }
    for (size_t i = 0; i < g->job_count; i++) {
        struct job *j = g->jobs[i];

        if (j->kind != JOB_EXEC || j->exited)
            continue;
        if (used > j->exit.disk_peak_bytes)
            j->exit.disk_peak_bytes = used;
        j->exit.disk_full |= full;
        if (starved && j->pid > 0 && !j->exit.oom) { /* else it is yet to be started */
            j->exit.oom = 1;
            exec_kill(g, j, SIGKILL);
        }
    }
    w->last_ns = now;
    w->next_ns = w->count ? now + wait : NEVER;
}

void limit_watch_start(struct guest *g)
{
    if (g->limit_watch.count)
        limit_watch_look(g);
}

int limit_watch_poll_fd(const struct guest *g)
{
    bool idle =
        g->limit_watch.next_ns == NEVER || now_ns() < g->limit_watch.busy_until_ns;

    return idle ? -1 : g->limit_watch.notify_fd;
}

void limit_watch_written(struct guest *g)
{
    char events[4096];

    while (read(g->limit_watch.notify_fd, events, sizeof events) > 0)
        ;
    g->limit_watch.busy_until_ns = now_ns() + BUSY_NS;
    g->limit_watch.next_ns = 0;
}

void limit_watch_step(struct guest *g)
{
    bool running = false;

    if (now_ns() < g->limit_watch.next_ns)
        return;
    for (size_t i = 0; i < g->job_count; i++)
        running |= g->jobs[i]->kind == JOB_EXEC && !g->jobs[i]->exited;
    if (running)
        limit_watch_look(g);
    else
        g->limit_watch.next_ns = NEVER;
}
