/* SPDX-License-Identifier: Apache-2.0 */
#include "zygote/code.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zygote/mappings.h"

#define PIECES_MAX  32
#define TOTAL_MAX   (UINT64_C(16) << 20)
#define BLOCK       PAGES_AROUND
#define WORTH       2 /* blocks; fewer are found as quickly as copied */
#define WRITTEN_MIN (UINT64_C(256) << 10)

struct piece {
    uint64_t start, end;
    int protection;
    bool moved;
};

struct pieces {
    const struct pages *read;
    bool alone; /* nobody else writes to memory */
    struct piece at[PIECES_MAX];
    size_t count;
    uint64_t total;
};

static int is_read(const struct pages *p, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < p->count; i++)
        if (!p->at[i].written && p->at[i].start >= start && p->at[i].start < end)
            return 1;
    return 0;
}

static uint64_t end_of_block(uint64_t at, uint64_t end)
{
    uint64_t next = (at / BLOCK + 1) * BLOCK;

    return next < end ? next : end;
}

static void take(struct pieces *all, const struct piece *one)
{
    if (all->count == PIECES_MAX || all->total + one->end - one->start > TOTAL_MAX)
        return;
    all->total += one->end - one->start;
    all->at[all->count++] = *one;
}

/* The part of a mapping that is read most: each block in it counts for it or against
 * it. */
static void take_read(struct pieces *all, const struct mapping *m)
{
    struct piece best = { .protection =
                              m->executable ? PROT_READ | PROT_EXEC : PROT_READ };
    uint64_t from = m->start;
    int score = 0, most = 0;

    for (uint64_t at = m->start; at < m->end; at = end_of_block(at, m->end)) {
        score += is_read(all->read, at, end_of_block(at, m->end)) ? 1 : -1;
        if (score > most) {
            most = score;
            best.start = from;
            best.end = end_of_block(at, m->end);
        }
        if (score < 0) {
            score = 0;
            from = end_of_block(at, m->end);
        }
    }
    if (most >= WORTH)
        take(all, &best);
}

/* Of what is written to, python's variables and the heap are worth it. */
static void choose(void *context, const struct mapping *m)
{
    struct pieces *all = context;
    const struct piece whole = { m->start, m->end, PROT_READ | PROT_WRITE, false };

    if (m->end - m->start > TOTAL_MAX)
        return;
    if (!m->writable && m->of_file)
        take_read(all, m);
    else if (m->writable && !m->executable && all->alone &&
             (m->of_file || m->is_heap) && m->end - m->start >= WRITTEN_MIN)
        take(all, &whole);
}

/* Each is protected before it is in place: if that is not allowed, all stays. */
static int copy(const struct pieces *all, uint8_t *to)
{
    uint8_t *at = to;

    for (size_t i = 0; i < all->count; i++) {
        const struct piece *one = &all->at[i];

        memcpy(at, (const void *)(uintptr_t)one->start, one->end - one->start);
        at += one->end - one->start;
    }
    if (madvise(to, all->total, MADV_COLLAPSE) < 0)
        return -1;
    at = to;
    for (size_t i = 0; i < all->count; i++) {
        const struct piece *one = &all->at[i];

        if (mprotect(at, one->end - one->start, one->protection) < 0)
            return -1;
        at += one->end - one->start;
    }
    return 0;
}

static void forget(struct pages *p, const struct piece *one)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->count; i++)
        if (p->at[i].written || p->at[i].start < one->start ||
            p->at[i].start >= one->end)
            p->at[kept++] = p->at[i];
    p->count = kept;
}

/* One call puts each there; whoever runs in it notices nothing. Nothing is written to
 * in between: what is in the heap would be lost. */
static void move_all(struct pieces *all, uint8_t *from)
{
    for (size_t i = 0; i < all->count; i++) {
        struct piece *one = &all->at[i];
        size_t size = one->end - one->start;

        one->moved = mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
                            (void *)(uintptr_t)one->start) != MAP_FAILED;
        from += size;
    }
}

static bool is_alone(int proc_fd)
{
    char path[64];
    struct stat st = { 0 };

    (void)snprintf(path, sizeof path, "%d/task", (int)getpid());
    return fstatat(proc_fd, path, &st, 0) == 0 && st.st_nlink == 3; /* ".", "..", it */
}

/* Only what was not moved: the rest may be another's by now. */
static void clear(const struct pieces *all, uint8_t *room, uint8_t *at, uint64_t size)
{
    uint8_t *end = room + size + PAGES_HUGE;

    if (at > room)
        (void)munmap(room, (size_t)(at - room));
    for (size_t i = 0; i < all->count; i++) {
        size_t len = all->at[i].end - all->at[i].start;

        if (!all->at[i].moved)
            (void)munmap(at, len);
        at += len;
    }
    if (end > at)
        (void)munmap(at, (size_t)(end - at));
}

void code_gather(struct pages *p, int proc_fd)
{
    struct pieces all = { .read = p, .alone = is_alone(proc_fd) };
    uint64_t size = 0;
    uint8_t *room = NULL, *at = NULL;

    mappings_show(true);
    mappings_each(proc_fd, getpid(), choose, &all);
    mappings_show(false);
    if (all.count == 0)
        return;
    size = (all.total + PAGES_HUGE - 1) / PAGES_HUGE * PAGES_HUGE;
    room = mmap(NULL, size + PAGES_HUGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return;
    at = room + (PAGES_HUGE - (uintptr_t)room % PAGES_HUGE) % PAGES_HUGE;
    all.total = size; /* a large page is made of a whole one only */
    if (copy(&all, at) == 0)
        move_all(&all, at);
    clear(&all, room, at, size);
    for (size_t i = 0; i < all.count; i++)
        if (all.at[i].moved)
            forget(p, &all.at[i]);
}
