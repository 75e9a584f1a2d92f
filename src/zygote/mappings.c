/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/mappings.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int open_of(int proc_fd, pid_t pid, const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof path, "%d/%s", (int)pid, name);
    return openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
}

/* "START-END rwxp OFFSET DEVICE INODE   PATH" */
static bool parse(const char *line, struct mapping *m)
{
    char *rest = NULL;

    m->start = strtoull(line, &rest, 16);
    m->end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;
    if (strncmp(rest, " r", 2) != 0 || strlen(rest) < 5 || rest[4] != 'p' ||
        strstr(rest, "[v"))
        return false;
    m->writable = rest[2] == 'w';
    m->executable = rest[3] == 'x';
    m->of_file = strchr(rest, '/') != NULL;
    m->is_heap = strstr(rest, "[heap]") != NULL;
    return m->end > m->start;
}

void mappings_each(int proc_fd, pid_t pid, mapping_fn *call, void *context)
{
    struct mapping m = { .pagemap = open_of(proc_fd, pid, "pagemap") };
    int fd = open_of(proc_fd, pid, "maps");
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    char line[512];

    while (maps && m.pagemap >= 0 && fgets(line, sizeof line, maps))
        if (parse(line, &m))
            call(context, &m);
    if (maps)
        (void)fclose(maps);
    else if (fd >= 0)
        (void)close(fd);
    if (m.pagemap >= 0)
        (void)close(m.pagemap);
}

void mappings_show(bool shown)
{
    (void)prctl(PR_SET_DUMPABLE, shown ? 1 : 0, 0, 0, 0);
}
