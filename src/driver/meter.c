/* SPDX-License-Identifier: Apache-2.0 */

/* Cpu time is that of each process that lives, and of the children it has waited
 * for; or, if that is more, that of each process ever seen, since children whose
 * parent ignores SIGCHLD are waited for by nobody. Memory is resident memory while that
 * is below the limit, which costs one small read a process; pages that several share
 * are told apart only when it is not. Tables of pages count, too. */

#include "driver/meter.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"

#define TREE_MAX     4096 /* processes looked at */
#define CHILDREN_MAX (64u << 10)
#define STAT_MAX     1024
#define TABLES_SMALL (4u << 20)
#define STARTED      22 /* of /proc/PID/stat: when */
#define UTIME        14 /* of /proc/PID/stat; then stime, cutime, cstime */

struct tree {
    pid_t pids[TREE_MAX];
    size_t count;
    unsigned long user, system; /* ticks */
    struct meter_process own[METER_SEEN];
    size_t own_count;
};

/* The text of field N of a stat line. Names may hold anything, so counting
 * starts behind the last parenthesis, with field 3. */
static const char *field(const char *stat, int n)
{
    const char *at = strrchr(stat, ')');

    for (int i = 2; at && i < n; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at;
}

static unsigned long number_at(const char *stat, int n)
{
    const char *text = field(stat, n);

    return text ? strtoul(text, NULL, 10) : 0;
}

static bool read_stat(pid_t pid, char stat[STAT_MAX])
{
    char path[32];

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return io_read_at(AT_FDCWD, path, stat, STAT_MAX) > 0;
}

static void add_ticks(struct tree *t, pid_t pid)
{
    char stat[STAT_MAX];
    struct meter_process p = { .pid = pid };

    if (!read_stat(pid, stat))
        return;
    p.start = number_at(stat, STARTED);
    p.user = number_at(stat, UTIME);
    p.system = number_at(stat, UTIME + 1);
    t->user += p.user + number_at(stat, UTIME + 2);
    t->system += p.system + number_at(stat, UTIME + 3);
    if (t->own_count < METER_SEEN)
        t->own[t->own_count++] = p;
}

static bool is_among(const struct tree *t, const struct meter_process *p)
{
    for (size_t i = 0; i < t->own_count; i++)
        if (t->own[i].pid == p->pid && t->own[i].start == p->start)
            return true;
    return false;
}

/* A list of children can lack some while others die. */
static bool is_alive(const struct meter_process *p)
{
    char stat[STAT_MAX];

    return read_stat(p->pid, stat) && number_at(stat, STARTED) == p->start;
}

/* The time of every process ever seen. */
static void count_own(struct meter *m, struct tree *t, double tick_ms)
{
    unsigned long user = 0, system = 0;

    for (size_t i = 0; i < m->seen_count; i++) {
        const struct meter_process *p = &m->seen[i];

        if (t->own_count == METER_SEEN || is_among(t, p))
            continue; /* too many to tell who is gone: rather less than too much */
        if (is_alive(p)) {
            t->own[t->own_count++] = *p;
            continue;
        }
        m->gone_user += p->user;
        m->gone_system += p->system;
    }
    memcpy(m->seen, t->own, t->own_count * sizeof *t->own);
    m->seen_count = t->own_count;
    for (size_t i = 0; i < m->seen_count; i++) {
        user += m->seen[i].user;
        system += m->seen[i].system;
    }
    meter_add(m, (double)(m->gone_user + user) * tick_ms,
              (double)(m->gone_system + system) * tick_ms);
}

/* The number of KiB behind KEY in FILE of PID, as bytes; or FALLBACK. */
static uint64_t kib_of(pid_t pid, const char *file, const char *key, uint64_t fallback)
{
    char path[40], text[4096];
    const char *line = NULL;

    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    if (io_read_at(AT_FDCWD, path, text, sizeof text) > 0)
        line = strstr(text, key);
    return line ? strtoull(line + strlen(key), NULL, 10) * 1024 : fallback;
}

/* Pages and the tables for them. Those cost memory even where no page does, but are
 * looked at only in a process that could have large ones: SIZE / 512 at most. */
static uint64_t resident_of(pid_t pid)
{
    char path[32], text[128];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t size = 0, pages = 0, tables = 0;
    char *end = text;

    (void)snprintf(path, sizeof path, "/proc/%d/statm", pid);
    if (io_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    size = strtoull(text, &end, 10);
    pages = size > 0 ? strtoull(end, NULL, 10) : 0;
    if (size * page / 512 > TABLES_SMALL)
        tables = kib_of(pid, "status", "\nVmPTE:", 0);
    return pages * page + tables;
}

/* Its share of pages, or all of them when the kernel does not tell us. */
static uint64_t share_of(pid_t pid)
{
    uint64_t share = kib_of(pid, "smaps_rollup", "\nPss:", UINT64_MAX);

    return share == UINT64_MAX ? resident_of(pid)
                               : share + kib_of(pid, "status", "\nVmPTE:", 0);
}

static uint64_t sum_of(const struct tree *t, uint64_t (*of)(pid_t))
{
    uint64_t sum = 0;

    for (size_t i = 0; i < t->count; i++)
        sum += of(t->pids[i]);
    return sum;
}

static void add_pids(struct tree *t, const char *text)
{
    char *end;

    while (t->count < TREE_MAX) {
        long pid = strtol(text, &end, 10);

        if (end == text || pid <= 0)
            return;
        t->pids[t->count++] = (pid_t)pid;
        text = end;
    }
}

/* Children belong to the thread that made them. */
static void add_children(struct tree *t, pid_t pid)
{
    auto_free char *list = malloc(CHILDREN_MAX);
    char path[64];
    const struct dirent *entry;
    DIR *tasks;

    (void)snprintf(path, sizeof path, "/proc/%d/task", pid);
    tasks = opendir(path);
    if (!tasks || !list) {
        if (tasks)
            (void)closedir(tasks);
        return;
    }
    while ((entry = readdir(tasks)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        (void)snprintf(path, sizeof path, "%.20s/children", entry->d_name);
        if (io_read_at(dirfd(tasks), path, list, CHILDREN_MAX) > 0)
            add_pids(t, list);
    }
    (void)closedir(tasks);
}

static void look_at_memory(struct meter *m, const struct tree *t)
{
    m->memory_bytes = sum_of(t, resident_of);
    if (m->memory_bytes > (uint64_t)m->memory_limit)
        m->memory_bytes = sum_of(t, share_of);
    if (m->memory_bytes > m->memory_peak_bytes)
        m->memory_peak_bytes = m->memory_bytes;
}

void meter_look(struct meter *m, pid_t root)
{
    auto_free struct tree *t = malloc(sizeof *t);
    double tick_ms = 1000.0 / (double)sysconf(_SC_CLK_TCK);

    if (!t)
        return;
    t->pids[0] = root;
    t->count = 1;
    t->user = t->system = 0;
    t->own_count = 0;
    for (size_t i = 0; i < t->count; i++) {
        add_ticks(t, t->pids[i]);
        add_children(t, t->pids[i]);
    }
    meter_add(m, (double)t->user * tick_ms, (double)t->system * tick_ms);
    count_own(m, t, tick_ms);
    if (m->memory_limit > 0)
        look_at_memory(m, t);
}

void meter_add(struct meter *m, double user_ms, double system_ms)
{
    m->user_ms = user_ms > m->user_ms ? user_ms : m->user_ms;
    m->system_ms = system_ms > m->system_ms ? system_ms : m->system_ms;
}

void meter_report(const struct meter *m, struct vessel_usage *out)
{
    out->counted = true;
    out->memory_bytes = m->memory_bytes;
    out->usage.cpu_user_ms = m->user_ms;
    out->usage.cpu_system_ms = m->system_ms;
    out->usage.memory_peak_bytes = m->memory_peak_bytes;
}

static unsigned long long number_after(const char *text, const char *label)
{
    const char *at = strstr(text, label);

    return at ? strtoull(at + strlen(label), NULL, 10) : 0;
}

static uint64_t weigh_process(long pid)
{
    char path[64], text[4096];

    (void)snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", pid);
    if (io_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    return number_after(text, "\nPss:") * 1024;
}

uint64_t weigh_vessel(const struct vessel *v)
{
    char path[96], text[4096];
    uint64_t total = 0;
    long guest = 0;
    char *at = text;

    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", v->death_fd);
    if (v->death_fd < 0 || io_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return 0;
    guest = (long)number_after(text, "\nPid:");
    if (guest <= 0)
        return 0;
    total = weigh_process(guest);
    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", guest, guest);
    if (io_read_at(AT_FDCWD, path, text, sizeof text) < 0)
        return total;
    for (long pid = strtol(at, &at, 10); pid > 0; pid = strtol(at, &at, 10))
        total += weigh_process(pid);
    return total;
}
