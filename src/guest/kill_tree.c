/* SPDX-License-Identifier: Apache-2.0 */

/* Signals to whole programs. A program that is to be killed is stopped first and killed
 * last: as long as it is there, whoever is left of it is found below it. A kill is over
 * when those it hit are gone. */

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest/proc_tree.h"

/* Nanoseconds for one kill; the host does not wait longer. */
#define TIME_LIMIT 2000000000u
#define PAUSE_MIN  200000L /* nanoseconds between two looks */
#define PAUSE_MAX  6400000L
#define PATIENCE   16          /* looks that find somebody running */
#define CALM       2           /* looks that find nobody, where nothing else tells */
#define LIST_SIZE  (64u << 10) /* of children; a longer list tells nothing */

struct killing {
    struct target *t;
    struct procs p;      /* as last seen */
    struct procs before; /* who there was when everybody was stopped */
    bool frozen;
    int running, calm; /* looks so far */
    uint64_t until;
    long pause_ns;
};

bool kill_tree_reap(struct guest *g)
{
    struct rusage usage;
    int status;
    pid_t pid;

    exec_hear(g);
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
        exec_reaped(g, pid, status, &usage);
    return pid == 0;
}

static bool is_main(const struct killing *h, const struct proc *one)
{
    return h->t->j && one->pid == h->t->j->pid;
}

/* Stops the program and kills who else is meant; false: nobody was seen. */
static bool look(const struct guest *g, struct killing *h)
{
    size_t alive = 0, moving = 0;

    if (!tree_scan(&h->p))
        return false;
    tree_mark(g, h->t, &h->p);
    for (size_t i = 0; i < h->p.count; i++) {
        const struct proc *one = &h->p.at[i];

        if (!one->ours || !one->alive)
            continue;
        tree_send(one, is_main(h, one) ? SIGSTOP : SIGKILL);
        alive += !is_main(h, one);
        moving += !is_main(h, one) && !one->exiting;
    }
    h->running += moving > 0;
    h->calm = alive ? 0 : h->calm + 1;
    return alive > 0;
}

/* Adds one thread's children; false: there is no such list, or no room for it. */
static bool add_children(int tasks, const char *thread, char *list, size_t *len)
{
    char path[32];
    ssize_t n = 1;
    int fd;

    if (strlen(thread) > 16)
        return false;
    (void)stpcpy(stpcpy(path, thread), "/children");
    fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (n > 0 && *len < LIST_SIZE - 1) {
        n = read(fd, list + *len, LIST_SIZE - 1 - *len);
        *len += n > 0 ? (size_t)n : 0;
    }
    (void)close(fd);
    list[*len] = 0;
    return n == 0;
}

/* The children of all of PID's threads. */
static bool list_children(pid_t pid, char *list, size_t *len)
{
    const struct dirent *entry;
    char path[32];
    bool told = true;
    DIR *dir;

    *len = 0;
    list[0] = 0; /* of one that is gone no thread is listed */
    tree_path(path, pid, "task");
    dir = opendir(path);
    if (!dir)
        return false;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the guest has one thread */
    while (told && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            told = add_children(dirfd(dir), entry->d_name, list, len);
    (void)closedir(dir);
    return told;
}

static bool are_dead(const char *list)
{
    struct proc one;
    char *end;

    for (;;) {
        pid_t pid = (pid_t)strtol(list, &end, 10);

        if (end == list)
            return true;
        if (tree_look_up(pid, &one) && one.alive)
            return false;
        list = end;
    }
}

/* The kernel keeps this list whole: whoever dies leaves his children to the program in
 * the same instant. When it has not changed while all in it were seen to be dead, there
 * is nobody below them. Of its threads it is always the same that inherits. */
static bool has_no_living(pid_t pid, bool *told)
{
    char *lists = malloc(2 * LIST_SIZE);
    size_t one = 0, two = 0;
    bool none;

    *told = lists && list_children(pid, lists, &one);
    none = *told && are_dead(lists) && list_children(pid, lists + LIST_SIZE, &two) &&
           one == two && memcmp(lists, lists + LIST_SIZE, one) == 0;
    free(lists);
    return none;
}

/* Whether nobody is left but the program itself, when nobody was seen. */
static bool is_over(struct killing *h)
{
    bool told = false;

    if (!h->frozen && h->t->main.pid > 0 && has_no_living(h->t->main.pid, &told))
        return true;
    h->running += told; /* there is somebody, and he was not seen */
    return !told && h->calm >= CALM;
}

/* A program can fork and exit faster than we look. Hence all processes are stopped at
 * once. The kernel does that as one step: a process that is born meanwhile is born
 * stopped. */
static void freeze(const struct guest *g, struct killing *h)
{
    if (h->frozen || !g->pid1 || h->running < PATIENCE || !tree_scan(&h->before))
        return;
    qsort(h->before.at, h->before.count, sizeof *h->before.at, tree_by_pid);
    h->frozen = true;
    (void)kill(-1, SIGSTOP);
}

static bool was_stopped(const struct killing *h, const struct proc *one)
{
    const struct proc *then =
        bsearch(one, h->before.at, h->before.count, sizeof *one, tree_by_pid);

    return then && then->start == one->start && then->stopped;
}

/* The others go on, unless they had been stopped before. */
static void thaw(const struct guest *g, struct killing *h)
{
    if (!h->frozen || !tree_scan(&h->p))
        return;
    tree_mark(g, h->t, &h->p);
    for (size_t i = 0; i < h->p.count; i++)
        if (!h->p.at[i].ours && h->p.at[i].pid != g->pid &&
            !was_stopped(h, &h->p.at[i]))
            tree_send(&h->p.at[i], SIGCONT);
}

static void wait_a_little(struct killing *h)
{
    const struct timespec pause = { .tv_nsec = h->pause_ns };

    if (h->pause_ns < PAUSE_MAX)
        h->pause_ns *= 2;
    (void)nanosleep(&pause, NULL);
}

static bool is_there(const struct proc *one)
{
    struct proc now;

    return one->pid > 0 && tree_look_up(one->pid, &now) && now.start == one->start;
}

static void kill_whole(struct guest *g, struct target *t)
{
    struct killing h = { .t = t,
                         .until = now_ns() + TIME_LIMIT,
                         .pause_ns = PAUSE_MIN };

    /* Without a child there is no descendant either: orphans become ours. */
    while (kill_tree_reap(g) && (look(g, &h) || !is_over(&h)) && now_ns() < h.until) {
        freeze(g, &h);
        wait_a_little(&h);
    }
    if (t->main.pid > 0)
        tree_send(&t->main, SIGKILL);
    thaw(g, &h);
    h.pause_ns = PAUSE_MIN;
    while (kill_tree_reap(g) && is_there(&t->main) && now_ns() < h.until)
        wait_a_little(&h);
    free(h.p.at);
    free(h.before.at);
}

/* For pid 1: nobody is forgotten, and nobody is born any more. */
static void kill_everybody(struct guest *g)
{
    struct killing h = { .until = now_ns() + TIME_LIMIT, .pause_ns = PAUSE_MIN };

    (void)kill(-1, SIGKILL);
    while (kill_tree_reap(g) && now_ns() < h.until)
        wait_a_little(&h);
}

static size_t running(const struct guest *g)
{
    size_t count = 0;

    for (size_t i = 0; i < g->job_count; i++)
        count +=
            g->jobs[i]->kind == JOB_EXEC && !g->jobs[i]->over && g->jobs[i]->pid > 0;
    return count;
}

/* Once, to those who are seen. */
static void send_to(const struct guest *g, struct target *t, int signal)
{
    struct procs p = { 0 };

    if (!tree_scan(&p))
        return;
    tree_mark(g, t, &p);
    for (size_t i = 0; i < p.count; i++)
        if (p.at[i].ours && p.at[i].alive)
            tree_send(&p.at[i], signal);
    free(p.at);
}

void kill_tree_signal(struct guest *g, const struct job *j, int signal)
{
    struct target t = { .j = j, .alone = running(g) == 1 };
    bool all = t.alone && g->exec_count == 1; /* then all there is belongs to it */

    if (g->pid1 && all) {
        if (signal == SIGKILL)
            kill_everybody(g);
        else
            (void)kill(-1, signal);
        return;
    }
    if (access("/proc/self/stat", F_OK) < 0) {
        (void)kill(-j->pid, signal);
        return;
    }
    if (all)
        t.j = NULL;
    if (signal == SIGKILL)
        kill_whole(g, &t);
    else
        send_to(g, &t, signal);
}

void kill_tree_ask(struct guest *g)
{
    struct target all = { 0 };

    if (g->pid1)
        (void)kill(-1, SIGTERM);
    else
        send_to(g, &all, SIGTERM);
}

bool kill_tree_is_over(struct guest *g)
{
    for (size_t i = 0; i < g->job_count; i++)
        if (g->jobs[i]->kind == JOB_EXEC)
            return false;
    return !kill_tree_reap(g) && g->out_tail == g->out_head;
}

void kill_tree_all(struct guest *g)
{
    struct target all = { 0 };

    if (g->pid1)
        return; /* the kernel kills them all when pid 1 ends */
    for (size_t i = 0; i < g->job_count; i++)
        if (g->jobs[i]->pid > 0 && !g->jobs[i]->exited)
            (void)kill(-g->jobs[i]->pid, SIGKILL);
    kill_whole(g, &all);
}
