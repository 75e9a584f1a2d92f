/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session/spool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"

#define PAID_BYTES (UINT64_C(256) << 10) /* of the file, at once */

void spool_init(struct spool *t, size_t ring, uint64_t spill,
                const struct spool_payer *payer)
{
    *t = (struct spool){
        .ring_size = ring, .spill_size = spill, .spill_fd = -1, .payer = payer
    };
}

static bool take(const struct spool *t, enum budget_kind kind, uint64_t bytes)
{
    return !t->payer || t->payer->take(t->payer->context, kind, bytes);
}

static void give(const struct spool *t, enum budget_kind kind, uint64_t bytes)
{
    if (t->payer && bytes > 0)
        t->payer->give(t->payer->context, kind, bytes);
}

static void drop_ring(struct spool *t)
{
    if (t->ring)
        give(t, BUDGET_MEMORY, t->ring_size);
    free(t->ring);
    t->ring = NULL;
    t->ring_start = t->end;
}

static void drop_spill(struct spool *t)
{
    if (t->spill_fd >= 0)
        (void)close(t->spill_fd);
    t->spill_fd = -1;
    t->spill_broken = true;
    give(t, BUDGET_DISK, t->spill_paid);
    t->spill_paid = 0;
    t->start = t->ring_start;
}

void spool_done(struct spool *t)
{
    drop_ring(t);
    drop_spill(t);
    *t = (struct spool){ .spill_fd = -1 };
}

bool spool_is_empty(const struct spool *t)
{
    return !t->ring && t->spill_paid == 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool open_spill(struct spool *t)
{
    if (t->spill_fd < 0)
        t->spill_fd = io_temp_file();
    return t->spill_fd >= 0;
}

static bool write_at(struct spool *t, const char *data, size_t len, uint64_t offset)
{
    while (len > 0) {
        uint64_t at = offset % t->spill_size;
        size_t part = (size_t)least(len, t->spill_size - at);
        ssize_t n = pwrite(t->spill_fd, data, part, (off_t)at);

        if (n <= 0)
            return false;
        data += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return true;
}

/* Before bytes go to the file up to offset UPTO. Where nobody pays for more of it, it
 * is a smaller ring from now on; this happens in its first round only, so that what it
 * has stays where it is. */
static bool pay_spill(struct spool *t, uint64_t upto)
{
    while (t->spill_paid < least(upto, t->spill_size)) {
        uint64_t more = least(PAID_BYTES, t->spill_size - t->spill_paid);

        if (take(t, BUDGET_DISK, more))
            t->spill_paid += more;
        else
            t->spill_size = t->spill_paid;
    }
    return t->spill_size > 0;
}

/* Moves the oldest LEN bytes of the ring, which has them, to the file. */
static void evict(struct spool *t, size_t len)
{
    while (len > 0) {
        size_t at = (size_t)(t->ring_start % t->ring_size);
        size_t part = (size_t)least(len, t->ring_size - at);

        if (!t->spill_broken &&
            (!pay_spill(t, t->ring_start + part) || !open_spill(t) ||
             !write_at(t, t->ring + at, part, t->ring_start)))
            drop_spill(t);
        t->ring_start += part;
        len -= part;
    }
    if (t->spill_broken)
        t->start = t->ring_start;
    else if (t->ring_start - t->start > t->spill_size)
        t->start = t->ring_start - t->spill_size;
}

/* LEN <= half of the ring. */
static void add_part(struct spool *t, const char *data, size_t len)
{
    size_t held = (size_t)(t->end - t->ring_start);
    size_t at, first;

    if (held + len > t->ring_size) {
        size_t more = held + len - t->ring_size;

        if (t->spill_size > 0 && !t->spill_broken)
            more += t->ring_size / 4; /* in large pieces: each is a system call */
        evict(t, (size_t)least(held, more));
    }
    at = (size_t)(t->end % t->ring_size);
    first = (size_t)least(len, t->ring_size - at);
    memcpy(t->ring + at, data, first);
    memcpy(t->ring, data + first, len - first);
    t->end += len;
}

void spool_add(struct spool *t, const void *data, size_t len)
{
    const char *at = data;

    if (!t->ring && take(t, BUDGET_MEMORY, t->ring_size)) {
        t->ring = malloc(t->ring_size);
        if (!t->ring)
            give(t, BUDGET_MEMORY, t->ring_size);
    }
    if (!t->ring) { /* counted and lost, as readers will see */
        t->end += len;
        t->start = t->ring_start = t->end;
        return;
    }
    while (len > 0) {
        size_t part = (size_t)least(len, (t->ring_size + 1) / 2);

        add_part(t, at, part);
        at += part;
        len -= part;
    }
}

static size_t read_spill(const struct spool *t, uint64_t offset, void *buf, size_t size)
{
    uint64_t at = offset % t->spill_size;
    uint64_t n = least(least(size, t->ring_start - offset), t->spill_size - at);
    ssize_t got = pread(t->spill_fd, buf, (size_t)n, (off_t)at);

    return got > 0 ? (size_t)got : 0;
}

size_t spool_read(const struct spool *t, uint64_t offset, void *buf, size_t size)
{
    size_t at, n;

    if (offset >= t->end || size == 0)
        return 0;
    if (offset < t->ring_start)
        return read_spill(t, offset, buf, size);
    at = (size_t)(offset % t->ring_size);
    n = (size_t)least(least(size, t->end - offset), t->ring_size - at);
    memcpy(buf, t->ring + at, n);
    return n;
}

/* The newest LEN bytes of the ring, which has them, in one of just that size. */
static void shrink(struct spool *t, size_t len)
{
    uint64_t from = t->end - len;
    char *smaller = len > 0 ? malloc(len) : NULL;
    size_t got = 0;

    if (len > 0 && !smaller)
        return; /* it is only larger than it need be */
    while (got < len) {
        size_t at = (size_t)((from + got) % t->ring_size);
        size_t part = (size_t)least(len - got, t->ring_size - at);

        /* Where each byte has its place in the new one. */
        for (size_t i = 0; i < part; i++)
            smaller[(from + got + i) % len] = t->ring[at + i];
        got += part;
    }
    give(t, BUDGET_MEMORY, t->ring_size - len);
    free(t->ring);
    t->ring = smaller;
    t->ring_size = len > 0 ? len : 1;
    t->ring_start = from;
    if (t->spill_fd < 0)
        t->start = from;
}

void spool_end(struct spool *t, size_t most)
{
    size_t held = (size_t)(t->end - t->ring_start);

    if (t->ring)
        shrink(t, t->spill_fd < 0 && held > most ? most : held);
}

void spool_trim(struct spool *t, size_t most)
{
    size_t held = (size_t)(t->end - t->ring_start);

    drop_spill(t);
    if (t->ring)
        shrink(t, held > most ? most : held);
}
