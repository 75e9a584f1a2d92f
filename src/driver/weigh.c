/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/weigh.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"

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
