/* SPDX-License-Identifier: Apache-2.0 */

/* Whether a small file system ran full, from samples, since the kernel has no
 * event for it: it looks the more often the nearer and the faster it fills, and
 * rarely while nothing is written. What is written at the top of a small file
 * system is told by inotify, and wakes it. */

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
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

static bool is_seen_already(const struct watch *w, dev_t dev)
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

void watch_open(struct guest *g)
{
    struct watch *w = &g->watch;

    w->next_ns = NEVER;
    w->notify_fd = -1;
    for (size_t i = 0; i < 2; i++) {
        const char *path = g->jail.watch_full[i];
        int fd = path ? open_watched(g, path) : -1;
        struct statfs fs;
        struct stat st;

        if (fd < 0)
            continue;
        if (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC && fs.f_blocks &&
            fstat(fd, &st) == 0 && !is_seen_already(w, st.st_dev)) {
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
void watch_notify(struct guest *g)
{
    struct watch *w = &g->watch;

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

void watch_look(struct guest *g)
{
    struct watch *w = &g->watch;
    uint64_t now = now_ns(), used = 0, wait = LONGEST_NS;
    bool full = false;
    bool starved = hidden_too_much(g);

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

void watch_start(struct guest *g)
{
    if (g->watch.count)
        watch_look(g);
}

int watch_poll_fd(const struct guest *g)
{
    bool idle = g->watch.next_ns == NEVER || now_ns() < g->watch.busy_until_ns;

    return idle ? -1 : g->watch.notify_fd;
}

void watch_written(struct guest *g)
{
    char events[4096];

    while (read(g->watch.notify_fd, events, sizeof events) > 0)
        ;
    g->watch.busy_until_ns = now_ns() + BUSY_NS;
    g->watch.next_ns = 0;
}

void watch_step(struct guest *g)
{
    bool running = false;

    if (now_ns() < g->watch.next_ns)
        return;
    for (size_t i = 0; i < g->job_count; i++)
        running |= g->jobs[i]->kind == JOB_EXEC && !g->jobs[i]->exited;
    if (running)
        watch_look(g);
    else
        g->watch.next_ns = NEVER;
}
