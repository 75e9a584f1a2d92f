/* SPDX-License-Identifier: Apache-2.0 */
#include "base/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

/* Field 22 of /proc/PID/stat, counted behind the name, which may hold anything.
 * 0: there is no such process, or it cannot be looked at. */
static unsigned long long start_time(const char *pid)
{
    char path[64];
    char text[1024];
    char *at = NULL;

    (void)snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    if (io_read_at(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return 0;
    at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

static unsigned long long namespace_id(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long long)st.st_ino : 0;
}

int owner_name(const char *id, char *out, size_t size)
{
    unsigned long long space = namespace_id();
    unsigned long long start = start_time("self");
    int n = 0;

    if (!space || !start)
        return -1;
    n = snprintf(out, size, "vial-%llu-%d-%llu-%s", space, (int)getpid(), start, id);
    return n > 0 && (size_t)n < size ? 0 : -1;
}

/* Not to see a process is no sign of its death: /proc may hide it (hidepid), or there
 * may be no descriptor left to look with. */
static bool is_gone(long number)
{
    return kill((pid_t)number, 0) < 0 && errno == ESRCH;
}

bool owner_is_dead(const char *name)
{
    unsigned long long space = 0;
    unsigned long long start = 0;
    unsigned long long seen = 0;
    char *end = NULL;
    char pid[16];
    long number = 0;

    if (strncmp(name, "vial-", 5) != 0)
        return false;
    space = strtoull(name + 5, &end, 10);
    if (*end != '-' || space != namespace_id())
        return false;
    number = strtol(end + 1, &end, 10);
    if (*end != '-' || number <= 0 || number > INT32_MAX)
        return false;
    start = strtoull(end + 1, &end, 10);
    if (*end != '-' || start == 0)
        return false;
    (void)snprintf(pid, sizeof(pid), "%ld", number);
    seen = start_time(pid);
    return seen ? seen != start : is_gone(number);
}
