/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/pages.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PRESENT   (UINT64_C(1) << 63) /* Documentation/admin-guide/mm/pagemap */
#define EXCLUSIVE (UINT64_C(1) << 56)
#define SPAN_MAX  (UINT64_C(64) << 20) /* of one mapping; larger ones are data */

#ifndef MADV_POPULATE_READ
    #define MADV_POPULATE_READ  22
    #define MADV_POPULATE_WRITE 23
#endif

static void add(struct pages *p, uint64_t at, uint64_t size, bool written)
{
    struct page_range *last = p->count ? &p->at[p->count - 1] : NULL;

    if (last && last->start + last->len == at && last->written == written)
        last->len += size;
    else if (p->count < PAGES_MAX)
        p->at[p->count++] = (struct page_range){ at, size, written };
}

static void look_at(struct pages *p, int map_fd, uint64_t start, uint64_t end,
                    bool writable)
{
    uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);

    for (uint64_t at = start; at < end && end - start <= SPAN_MAX; at += size) {
        uint64_t entry = 0;

        if (pread(map_fd, &entry, sizeof entry, (off_t)(at / size * sizeof entry)) !=
                (ssize_t)sizeof entry ||
            !(entry & PRESENT))
            continue;
        if (!writable || (entry & EXCLUSIVE))
            add(p, at, size, writable);
    }
}

void pages_look(struct pages *p, int proc_fd)
{
    int maps_fd = -1, map_fd = -1;
    FILE *maps = NULL;
    char line[512];

    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* or it may not look */
    maps_fd = openat(proc_fd, "self/maps", O_RDONLY | O_CLOEXEC);
    map_fd = openat(proc_fd, "self/pagemap", O_RDONLY | O_CLOEXEC);
    maps = maps_fd < 0 ? NULL : fdopen(maps_fd, "r");
    p->count = 0;
    while (maps && map_fd >= 0 && fgets(line, sizeof line, maps)) {
        char *rest = NULL;
        uint64_t start = strtoull(line, &rest, 16);
        uint64_t end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;

        if (strncmp(rest, " r", 2) == 0 && rest[4] == 'p' && !strstr(rest, "[v"))
            look_at(p, map_fd, start, end, rest[2] == 'w');
    }
}

/* A range that is gone by now, or a kernel that cannot, costs nothing but time. */
void pages_touch(const struct pages *p)
{
    for (size_t i = 0; i < p->count; i++)
        (void)madvise((void *)(uintptr_t)p->at[i].start, p->at[i].len,
                      p->at[i].written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}
