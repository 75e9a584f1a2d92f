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

#define PID_BITS 22 /* of the kernel's greatest number of a process */

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

struct owner {
    unsigned long long space, start;
    long pid;
};

/* Returns the part of NAME behind its owner, or NULL if the name is none of ours. */
static const char *parse(const char *name, struct owner *out)
{
    char *end = NULL;

    if (strncmp(name, "vial-", 5) != 0)
        return NULL;
    out->space = strtoull(name + 5, &end, 10);
    if (*end != '-')
        return NULL;
    out->pid = strtol(end + 1, &end, 10);
    if (*end != '-' || out->pid <= 0 || out->pid > INT32_MAX)
        return NULL;
    out->start = strtoull(end + 1, &end, 10);
    return *end == '-' && out->start > 0 ? end + 1 : NULL;
}

bool owner_is_dead(const char *name)
{
    struct owner o = { 0 };
    unsigned long long seen = 0;
    char pid[16];

    if (!parse(name, &o) || o.space != namespace_id())
        return false;
    (void)snprintf(pid, sizeof(pid), "%ld", o.pid);
    seen = start_time(pid);
    return seen ? seen != o.start : is_gone(o.pid);
}

/* A lock may lie anywhere, whatever a directory's size. Read locks, since one owner has
 * several descriptors, and nobody may write to a directory. -1: out of range. */
static int mark_of(unsigned long long space, long pid, short type, struct flock *out)
{
    *out = (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_len = 1 };
    if (space > UINT32_MAX || pid >= 1L << PID_BITS)
        return -1;
    out->l_start = (off_t)(space << PID_BITS | (unsigned long long)pid);
    return 0;
}

int owner_mark(const int *dir_fds, size_t count)
{
    struct flock mark;
    unsigned long long space = namespace_id();

    if (!space || mark_of(space, getpid(), F_RDLCK, &mark) < 0)
        return -EOVERFLOW;
    for (size_t i = 0; i < count; i++) {
        if (dir_fds[i] >= 0 && fcntl(dir_fds[i], F_OFD_SETLK, &mark) < 0)
            return -errno;
    }
    return 0;
}

bool owner_has_left(int dir_fd, const char *name)
{
    struct owner o = { 0 };
    struct flock mark;
    const char *id = parse(name, &o);

    return id && strncmp(id, OWNER_MARKED, strlen(OWNER_MARKED)) == 0 &&
           o.space != namespace_id() && mark_of(o.space, o.pid, F_WRLCK, &mark) == 0 &&
           fcntl(dir_fd, F_OFD_GETLK, &mark) == 0 && mark.l_type == F_UNLCK;
}
