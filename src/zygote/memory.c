/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/memory.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PRESENT    (UINT64_C(1) << 63) /* of an entry of pagemap */
#define EXCLUSIVE  (UINT64_C(1) << 56)
#define SPAN_MAX   (UINT64_C(64) << 20) /* of one mapping; larger ones are data */
#define ROOM_MAX   ((size_t)64 << 10)   /* below what libc asks the system for */
#define ROOM_STEP  16
#define ROOMS_MAX  65536 /* of all sizes: this is a favour, not a duty */
#define SMALL      2048  /* what libc keeps for the next who asks */
#define BLOCK_MAX  512   /* python's own pools hold nothing larger */
#define BLOCKS_MAX 4096
#define POOL       16384 /* since 3.10; a quarter of it before, which will do */
#define HEAD       48    /* of a pool, before its first block */

typedef void *take_fn(size_t size);

/* Largest first, so that none is cut for a smaller one. What lies beyond the old end
 * says that no hole is left; small pieces of that are kept, or libc would hand them
 * out first. */
static void fill_heap(void)
{
    uintptr_t end = (uintptr_t)sbrk(0);
    unsigned left = ROOMS_MAX;

    for (size_t size = ROOM_MAX; size >= ROOM_STEP; size -= ROOM_STEP)
        for (; left > 0; left--) {
            void *at = malloc(size + ROOM_STEP / 2);

            if ((uintptr_t)at < end && at)
                continue;
            if (size > SMALL)
                free(at);
            break;
        }
}

/* Two neighbours at its head tell a fresh pool. */
static void fill_pools(take_fn *take, size_t size)
{
    uintptr_t last = 0;

    for (int i = 0; i < BLOCKS_MAX; i++) {
        uintptr_t at = (uintptr_t)take(size);

        if (at == 0 || (last % POOL == HEAD && at == last + size))
            return;
        last = at;
    }
}

void holes_fill(void)
{
    take_fn *take = NULL;

    *(void **)(void *)&take = dlsym(RTLD_DEFAULT, "PyObject_Malloc");
    for (size_t size = ROOM_STEP; take && size <= BLOCK_MAX; size += ROOM_STEP)
        fill_pools(take, size);
    fill_heap();
}

/* A piece of memory that a process has mapped for itself and can read. */
struct mapping {
    uint64_t start, end;
    bool writable;
    int pagemap; /* Documentation/admin-guide/mm/pagemap */
};

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
    return m->end > m->start;
}

/* Of what is read, one page brings its neighbours in the same mapping. */
static void add(struct pages *p, const struct mapping *m, uint64_t at, uint64_t size)
{
    bool written = m->writable;
    struct page_range *last = p->count ? &p->at[p->count - 1] : NULL;

    if (last && !written && last->start >= m->start &&
        last->start / PAGES_AROUND == at / PAGES_AROUND)
        return;
    if (written && last && last->start + last->len == at && last->written == written)
        last->len += size;
    else if (p->count < PAGES_MAX)
        p->at[p->count++] = (struct page_range){ at, size, written };
}

static void look_at(struct pages *p, const struct mapping *m)
{
    uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);

    for (uint64_t at = m->start; at < m->end && m->end - m->start <= SPAN_MAX;
         at += size) {
        uint64_t entry = 0;

        if (pread(m->pagemap, &entry, sizeof entry,
                  (off_t)(at / size * sizeof entry)) != (ssize_t)sizeof entry ||
            !(entry & PRESENT))
            continue;
        if (!m->writable || (entry & EXCLUSIVE))
            add(p, m, at, size);
    }
}

void pages_look(struct pages *p, int proc_fd, pid_t pid)
{
    struct mapping m = { .pagemap = open_of(proc_fd, pid, "pagemap") };
    int fd = open_of(proc_fd, pid, "maps");
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    char line[512];

    p->count = 0;
    while (maps && m.pagemap >= 0 && fgets(line, sizeof line, maps))
        if (parse(line, &m))
            look_at(p, &m);
    if (maps)
        (void)fclose(maps);
    else if (fd >= 0)
        (void)close(fd);
    if (m.pagemap >= 0)
        (void)close(m.pagemap);
}

/* Whether pages are there. Those that the rehearsal got for itself are not there in
 * another child. */
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
