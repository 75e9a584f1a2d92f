/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pool/descriptors.h"

#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define LISTED "/proc/self/fd"

static unsigned limit_now(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > INT_MAX)
        return INT_MAX;
    return (unsigned)files.rlim_cur;
}

/* The list's own descriptor is counted as well, and so are its two dots. */
static unsigned count_listed(unsigned limit)
{
    DIR *list = opendir(LISTED);
    unsigned count = 0;

    if (!list)
        return limit;
    while (readdir(list)) /* NOLINT(concurrency-mt-unsafe): a list of our own */
        count++;
    (void)closedir(list);
    return count;
}

struct descriptors descriptors_now(void)
{
    struct descriptors d = { .limit = limit_now() };
    struct stat list;

    /* Since Linux 6.2 the list's size is how many there are. */
    if (stat(LISTED, &list) == 0 && list.st_size > 0)
        d.open = (unsigned)list.st_size;
    else
        d.open = count_listed(d.limit);
    return d;
}

/* Counting takes a while where there are many: not while it cannot matter. */
static bool is_within_a_quarter(unsigned held)
{
    return held <= limit_now() / 4 / DESCRIPTORS_EACH;
}

bool descriptors_allow(unsigned held, unsigned making)
{
    struct descriptors d;

    if (is_within_a_quarter(held + 1))
        return true;
    d = descriptors_now();
    return d.open + (making + 1) * DESCRIPTORS_EACH <= d.limit / 2;
}

bool descriptors_are_short(unsigned held)
{
    struct descriptors d;

    if (is_within_a_quarter(held))
        return false;
    d = descriptors_now();
    return d.open > d.limit - d.limit / 4;
}
