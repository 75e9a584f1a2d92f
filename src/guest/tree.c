/* SPDX-License-Identifier: Apache-2.0 */

/* Processes as trees. As pid 1 of a namespace the kernel knows who is ours;
 * elsewhere orphans come back to us (we are their subreaper), so that all are
 * found as descendants in /proc. Whoever is found is stopped first: what is
 * stopped does not fork. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest/guest.h"

#define PROCS_MAX 65536u
#define TIME_LIMIT                                                                     \
    2000000000u /* nanoseconds for one kill; the host does not wait longer */
#define PAUSE_NS 200000

enum { STAT_PARENT = 4, STAT_SESSION = 6, STAT_START = 22 }; /* proc(5) */

struct proc {
    pid_t pid, parent, session;
    unsigned long long start; /* tells two processes with one pid apart */
    bool ours, alive;
};

struct procs {
    struct proc *at;
    size_t count, cap;
};

bool tree_reap(struct guest *g)
{
    struct rusage usage;
    int status;
    pid_t pid;

    exec_hear(g);
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
        exec_reaped(g, pid, status, &usage);
    return pid == 0;
}

void tree_path(char *out, pid_t pid, const char *file)
{
    char digits[16];
    size_t n = 0;

    do
        digits[n++] = (char)('0' + pid % 10);
    while (pid /= 10);
    out = stpcpy(out, "/proc/");
    while (n)
        *out++ = digits[--n];
    (void)stpcpy(stpcpy(out, "/"), file);
}

static ssize_t read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -1;
    n = read(fd, text, size - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = 0;
    return n;
}

/* One process of /proc; false when it is gone. */
static bool read_stat(pid_t pid, struct proc *out)
{
    unsigned long long numbers[STAT_START + 1] = { 0 };
    char path[32], text[1024];
    char *at;

    tree_path(path, pid, "stat");
    if (read_text(path, text, sizeof text) <= 0)
        return false;
    at = strrchr(text, ')'); /* the name before it may hold anything */
    if (!at || strlen(at) < 4)
        return false;
    *out = (struct proc){ .pid = pid, .alive = at[2] != 'Z' && at[2] != 'X' };
    at += 3;
    for (int i = STAT_PARENT; i <= STAT_START; i++)
        numbers[i] = strtoull(at, &at, 10);
    out->parent = (pid_t)numbers[STAT_PARENT];
    out->session = (pid_t)numbers[STAT_SESSION];
    out->start = numbers[STAT_START];
    return true;
}

static bool add_proc(struct procs *p, const struct proc *one)
{
    if (p->count == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 256;
        struct proc *at = cap > PROCS_MAX ? NULL : realloc(p->at, cap * sizeof *at);

        if (!at)
            return false;
        p->at = at;
        p->cap = cap;
    }
    p->at[p->count++] = *one;
    return true;
}

/* All processes there are; false without a /proc. */
static bool scan(struct procs *p)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;

    p->count = 0;
    if (!dir)
        return false;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the guest has one thread */
    while ((entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct proc one;

        if (pid > 0 && read_stat(pid, &one) && !add_proc(p, &one))
            break;
    }
    (void)closedir(dir);
    return true;
}

/* Whose processes are meant. */
struct target {
    const struct job *j; /* NULL: every descendant of the guest */
    bool alone;          /* no other program is running */
    struct proc main;    /* j's, once seen; it may be gone before the rest */
};

/* By the kernel's clock ticks and, within one, by number. */
static bool is_younger(const struct proc *one, const struct proc *main)
{
    return main->pid > 0 && (one->start > main->start ||
                             (one->start == main->start && one->pid > main->pid));
}

/* An orphan comes back to the guest. Beside a program that runs alone, one that
 * is younger than it must be its own, whatever it did to hide; older ones were
 * left by programs before it. */
static bool is_root(const struct guest *g, const struct target *t,
                    const struct proc *one)
{
    if (one->pid == g->pid)
        return false;
    if (!t->j)
        return one->parent == g->pid;
    if (one->pid == t->j->pid || one->session == t->j->pid)
        return true;
    return t->alone && one->parent == g->pid && is_younger(one, &t->main);
}

static int by_pid(const void *a, const void *b)
{
    const struct proc *one = a, *other = b;

    return (one->pid > other->pid) - (one->pid < other->pid);
}

static bool parent_is_ours(const struct procs *p, const struct proc *one)
{
    struct proc key = { .pid = one->parent };
    const struct proc *parent = bsearch(&key, p->at, p->count, sizeof key, by_pid);

    return parent && parent->ours;
}

static void find_main(struct target *t, const struct procs *p)
{
    for (size_t i = 0; t->j && !t->main.pid && i < p->count; i++)
        if (p->at[i].pid == t->j->pid)
            t->main = p->at[i];
}

/* Marks who is meant, and returns how many of them are alive. */
static size_t mark(const struct guest *g, struct target *t, struct procs *p)
{
    size_t alive = 0;
    bool more = true;

    if (p->count)
        qsort(p->at, p->count, sizeof *p->at, by_pid);
    find_main(t, p);
    for (size_t i = 0; i < p->count; i++)
        p->at[i].ours = is_root(g, t, &p->at[i]);
    while (more) {
        more = false;
        for (size_t i = 0; i < p->count; i++)
            if (!p->at[i].ours && parent_is_ours(p, &p->at[i]))
                more = p->at[i].ours = true;
    }
    for (size_t i = 0; i < p->count; i++)
        alive += p->at[i].ours && p->at[i].alive;
    return alive;
}

/* By descriptor, so that a pid used again in the meantime is not hit. */
static void signal_one(const struct proc *one, int signal)
{
    int fd = (int)syscall(SYS_pidfd_open, one->pid, 0);
    struct proc now;

    if (fd < 0) {
        if (errno == ENOSYS)
            (void)kill(one->pid, signal);
        return;
    }
    if (read_stat(one->pid, &now) && now.start == one->start)
        (void)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    (void)close(fd);
}

static void signal_marked(const struct procs *p, int signal)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->at[i].ours && p->at[i].alive)
            signal_one(&p->at[i], signal);
}

/* Stops all, again and again until no new ones appear. */
static size_t stop_all(const struct guest *g, struct target *t, struct procs *p,
                       uint64_t until)
{
    size_t before = 0, alive;

    while (scan(p) && (alive = mark(g, t, p)) > before && now_ns() < until) {
        signal_marked(p, SIGSTOP);
        before = alive;
    }
    return before;
}

static void kill_walk(struct guest *g, struct target *t)
{
    const struct timespec pause = { .tv_nsec = PAUSE_NS };
    uint64_t until = now_ns() + TIME_LIMIT;
    struct procs p = { 0 };

    /* Without a child there is no descendant either: orphans become ours. */
    while (tree_reap(g) && stop_all(g, t, &p, until) > 0 && now_ns() < until) {
        signal_marked(&p, SIGKILL);
        (void)nanosleep(&pause, NULL);
    }
    free(p.at);
}

static size_t running(const struct guest *g)
{
    size_t count = 0;

    for (size_t i = 0; i < g->job_count; i++)
        count +=
            g->jobs[i]->kind == JOB_EXEC && !g->jobs[i]->over && g->jobs[i]->pid > 0;
    return count;
}

void tree_signal(struct guest *g, const struct job *j, int signal)
{
    struct procs p = { 0 };
    struct target t = { .j = j, .alone = running(g) == 1 };
    bool all = t.alone && g->exec_count == 1; /* then all there is belongs to it */

    if (g->pid1 && all) {
        (void)kill(-1, signal);
        return;
    }
    if (access("/proc/self/stat", F_OK) < 0) {
        (void)kill(-j->pid, signal);
        return;
    }
    if (all)
        t.j = NULL;
    if (signal == SIGKILL) {
        kill_walk(g, &t);
        return;
    }
    if (scan(&p) && mark(g, &t, &p))
        signal_marked(&p, signal);
    free(p.at);
}

void tree_kill_all(struct guest *g)
{
    struct target all = { 0 };

    if (g->pid1)
        return; /* the kernel kills them all when pid 1 ends */
    for (size_t i = 0; i < g->job_count; i++)
        if (g->jobs[i]->pid > 0 && !g->jobs[i]->exited)
            (void)kill(-g->jobs[i]->pid, SIGKILL);
    kill_walk(g, &all);
}
