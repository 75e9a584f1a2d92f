/* SPDX-License-Identifier: Apache-2.0 */

/* Cpu time of a tree of processes while it runs. Nothing counts it as a whole
 * here, so it is added up: of each that lives, its own and that of the children
 * it has waited for. */

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "driver/process/process.h"

#define TREE_MAX     4096 /* processes looked at */
#define CHILDREN_MAX (64u << 10)
#define UTIME        14 /* of /proc/PID/stat; then stime, cutime, cstime */

struct tree {
    pid_t pids[TREE_MAX];
    size_t count;
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

static unsigned long ticks_of(pid_t pid)
{
    char path[32], stat[1024];
    unsigned long sum = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (io_read_at(AT_FDCWD, path, stat, sizeof stat) <= 0)
        return 0;
    for (int n = UTIME; n < UTIME + 4; n++) {
        const char *text = field(stat, n);

        sum += text ? strtoul(text, NULL, 10) : 0;
    }
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

double meter_tree_ms(pid_t root)
{
    auto_free struct tree *t = malloc(sizeof *t);
    unsigned long ticks = 0;

    if (!t)
        return 0;
    t->pids[0] = root;
    t->count = 1;
    for (size_t i = 0; i < t->count; i++) {
        ticks += ticks_of(t->pids[i]);
        add_children(t, t->pids[i]);
    }
    return (double)ticks * 1000.0 / (double)sysconf(_SC_CLK_TCK);
}
