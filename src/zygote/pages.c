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
#define AROUND    (UINT64_C(64) << 10) /* what the kernel maps with a page of a file */
#define SPAN_MAX  (UINT64_C(64) << 20) /* of one mapping; larger ones are data */
#define HUGE      (UINT64_C(2) << 20)
#define FULL      (HUGE / 4096 / 2) /* pages in use for which a huge one is made */

#ifndef MADV_COLLAPSE
    #define MADV_COLLAPSE 25
#endif

/* Of what is read, one page brings its neighbours. */
static void add(struct pages *p, uint64_t at, uint64_t size, bool written)
{
    struct page_range *last = p->count ? &p->at[p->count - 1] : NULL;

    if (last && !written && !last->written && last->start / AROUND == at / AROUND)
        return;
    if (written && last && last->start + last->len == at && last->written == written)
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

/* For each mapping of its own that it can read. */
typedef void mapping_fn(struct pages *p, int map_fd, uint64_t start, uint64_t end,
                        bool writable);

static int open_of(int proc_fd, pid_t pid, const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof path, "%d/%s", (int)pid, name);
    return openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
}

static void each_mapping(int proc_fd, pid_t pid, mapping_fn *call, struct pages *p)
{
    int maps_fd = open_of(proc_fd, pid, "maps");
    int map_fd = open_of(proc_fd, pid, "pagemap");
    FILE *maps = NULL;
    char line[512];

    maps = maps_fd < 0 ? NULL : fdopen(maps_fd, "r");
    while (maps && map_fd >= 0 && fgets(line, sizeof line, maps)) {
        char *rest = NULL;
        uint64_t start = strtoull(line, &rest, 16);
        uint64_t end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;

        if (strncmp(rest, " r", 2) == 0 && rest[4] == 'p' && !strstr(rest, "[v"))
            call(p, map_fd, start, end, rest[2] == 'w');
    }
    if (maps)
        (void)fclose(maps);
    else if (maps_fd >= 0)
        (void)close(maps_fd);
    if (map_fd >= 0)
        (void)close(map_fd);
}

void pages_show(bool shown)
{
    (void)prctl(PR_SET_DUMPABLE, shown ? 1 : 0, 0, 0, 0);
}

void pages_look(struct pages *p, int proc_fd, pid_t pid)
{
    p->count = 0;
    each_mapping(proc_fd, pid, look_at, p);
}

static size_t in_use(int map_fd, uint64_t start)
{
    uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t entries[HUGE / 4096];
    size_t count = 0;

    if (pread(map_fd, entries, sizeof entries, (off_t)(start / size * 8)) !=
        (ssize_t)sizeof entries)
        return 0;
    for (size_t i = 0; i < HUGE / 4096; i++)
        count += (entries[i] & PRESENT) != 0;
    return count;
}

static void join_pages(struct pages *p, int map_fd, uint64_t start, uint64_t end,
                       bool writable)
{
    (void)p;
    for (uint64_t at = (start + HUGE - 1) / HUGE * HUGE; writable && at + HUGE <= end;
         at += HUGE)
        if (in_use(map_fd, at) >= FULL)
            (void)madvise((void *)(uintptr_t)at, HUGE, MADV_COLLAPSE);
}

void pages_join(int proc_fd)
{
    pages_show(true);
    each_mapping(proc_fd, getpid(), join_pages, NULL);
    pages_show(false);
}

/* What the rehearsal got for itself is not there in another child. */
static bool is_there(const struct page_range *r)
{
    unsigned char resident[64];
    uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);

    for (uint64_t at = 0; at < r->len; at += size * sizeof resident) {
        uint64_t len = r->len - at;

        len = len < size * sizeof resident ? len : size * sizeof resident;
        if (mincore((void *)(uintptr_t)(r->start + at), len, resident) < 0)
            return false;
    }
    return true;
}

void pages_keep(struct pages *p)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->count; i++)
        if (is_there(&p->at[i]))
            p->at[kept++] = p->at[i];
    p->count = kept;
}

/* Once a page that is written to would be copied, writing to it what it holds does
 * so; asking the kernel for it by madvise takes a quarter longer. */
void pages_touch(const struct pages *p)
{
    uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t heap_end = (uint64_t)(uintptr_t)sbrk(0);

    for (size_t i = 0; i < p->count; i++) {
        const struct page_range *r = &p->at[i];

        /* The heap is the one place that can have shrunk since. */
        if (r->start >= heap_end && r->start < heap_end + SPAN_MAX)
            continue;
        for (uint64_t at = r->start; at < r->start + r->len; at += size) {
            volatile uint8_t *byte = (volatile uint8_t *)(uintptr_t)at;
            uint8_t value = *byte;

            if (r->written)
                *byte = value;
        }
    }
}
