/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_LEFT_BEHIND_H
#define VIAL_TESTS_LEFT_BEHIND_H

/* What a test looks at when it asks whether anything was left behind. */

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

/* In the directory PATH; none if it is not there. */
static inline size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    size_t count = 0;

    if (!dir)
        return 0;
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count - 2; /* itself and its parent */
}

/* Whether a process has MARK in its arguments. */
static inline bool is_running(const char *mark)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    char path[300], line[512];
    bool found = false;

    assert_non_null(proc);
    while (!found && (entry = readdir(proc)) != NULL) {
        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line);

        if (fd >= 0)
            (void)close(fd);
        found = n > 0 && memmem(line, (size_t)n, mark, strlen(mark)) != NULL;
    }
    (void)closedir(proc);
    return found;
}

#endif
