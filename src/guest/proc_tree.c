/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/proc_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCS_MAX 65536u

/* proc(5) */
enum { STAT_PARENT = 4, STAT_SESSION = 6, STAT_FLAGS = 9, STAT_THREADS = 20 };
enum { STAT_START = 22, FLAG_EXITING = 4 };

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

bool tree_look_up(pid_t pid, struct proc *out)
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
    *out = (struct proc){ .pid = pid, .stopped = at[2] == 'T' };
    out->alive = at[2] != 'Z' && at[2] != 'X';
    at += 3;
    for (int i = STAT_PARENT; i <= STAT_START; i++)
        numbers[i] = strtoull(at, &at, 10);
    out->parent = (pid_t)numbers[STAT_PARENT];
    out->session = (pid_t)numbers[STAT_SESSION];
    out->start = numbers[STAT_START];
    out->exiting = numbers[STAT_FLAGS] & FLAG_EXITING;
    out->threads = (unsigned)numbers[STAT_THREADS];
    /* The state is the first thread's, which may end before the others. */
    out->alive = out->alive || numbers[STAT_THREADS] > 1;
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

bool tree_scan(struct procs *p)
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

        if (pid > 0 && tree_look_up(pid, &one) && !add_proc(p, &one))
            break;
    }
    (void)closedir(dir);
    return true;
}

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
    if (one->session == t->j->pid || (one->pid == t->j->pid && !t->j->exited))
        return true;
    return t->alone && one->parent == g->pid && is_younger(one, &t->main);
}

int tree_by_pid(const void *a, const void *b)
{
    const struct proc *one = a, *other = b;

    return (one->pid > other->pid) - (one->pid < other->pid);
}

static bool parent_is_ours(const struct procs *p, const struct proc *one)
{
    struct proc key = { .pid = one->parent };
    const struct proc *parent = bsearch(&key, p->at, p->count, sizeof key, tree_by_pid);

    return parent && parent->ours;
}

static void find_main(struct target *t, const struct procs *p)
{
    for (size_t i = 0; t->j && !t->main.pid && i < p->count; i++)
        if (p->at[i].pid == t->j->pid)
            t->main = p->at[i];
}

void tree_mark(const struct guest *g, struct target *t, struct procs *p)
{
    bool more = true;

    if (p->count)
        qsort(p->at, p->count, sizeof *p->at, tree_by_pid);
    find_main(t, p);
    for (size_t i = 0; i < p->count; i++)
        p->at[i].ours = is_root(g, t, &p->at[i]);
    while (more) {
        more = false;
        for (size_t i = 0; i < p->count; i++)
            if (!p->at[i].ours && parent_is_ours(p, &p->at[i]))
                more = p->at[i].ours = true;
    }
}

uint32_t tree_count(const struct guest *g)
{
    struct target everyone = { 0 };
    struct procs p = { 0 };
    siginfo_t info;
    uint32_t count = 0;

    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
        return 0;
    if (tree_scan(&p))
        tree_mark(g, &everyone, &p);
    for (size_t i = 0; i < p.count; i++)
        if (p.at[i].ours && p.at[i].alive)
            count += p.at[i].threads;
    free(p.at);
    return count;
}

void tree_send(const struct proc *one, int signal)
{
    int fd = (int)syscall(SYS_pidfd_open, one->pid, 0);
    struct proc now;

    if (fd < 0) {
        if (errno == ENOSYS)
            (void)kill(one->pid, signal);
        return;
    }
    if (tree_look_up(one->pid, &now) && now.start == one->start)
        (void)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    (void)close(fd);
}
