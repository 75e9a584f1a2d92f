/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/pages.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zygote/mappings.h"

#define PRESENT   (UINT64_C(1) << 63) /* Documentation/admin-guide/mm/pagemap */
#define EXCLUSIVE (UINT64_C(1) << 56)
#define SPAN_MAX  (UINT64_C(64) << 20) /* of one mapping; larger ones are data */
#define HUGE      PAGES_HUGE
#define FULL      (HUGE / 4096 / 2) /* pages in use for which a huge one is made */

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

static void look_at(void *context, const struct mapping *m)
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
            add(context, m, at, size);
    }
}

void pages_look(struct pages *p, int proc_fd, pid_t pid)
{
    p->count = 0;
    mappings_each(proc_fd, pid, look_at, p);
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

static void join_pages(void *context, const struct mapping *m)
{
    (void)context;
    for (uint64_t at = (m->start + HUGE - 1) / HUGE * HUGE;
         m->writable && at + HUGE <= m->end; at += HUGE)
        if (in_use(m->pagemap, at) >= FULL)
            (void)madvise((void *)(uintptr_t)at, HUGE, MADV_COLLAPSE);
}

void pages_join(int proc_fd)
{
    mappings_show(true);
    mappings_each(proc_fd, getpid(), join_pages, NULL);
    mappings_show(false);
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
