/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tape.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tape_init(struct tape *t, size_t ring, uint64_t spill)
{
    *t = (struct tape){ .ring_size = ring, .spill_size = spill, .spill_fd = -1 };
}

void tape_done(struct tape *t)
{
    free(t->ring);
    if (t->spill_fd >= 0)
        (void)close(t->spill_fd);
    *t = (struct tape){ .spill_fd = -1 };
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* On a disk rather than in memory, where there is one. */
static bool open_spill(struct tape *t)
{
    static const char *const places[] = { "/var/tmp", "/tmp" };

    for (size_t i = 0; t->spill_fd < 0 && i < 2; i++)
        t->spill_fd = open(places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return t->spill_fd >= 0;
}

static bool write_at(struct tape *t, const char *data, size_t len, uint64_t offset)
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

/* Moves the oldest LEN bytes of the ring, which has them, to the file. */
static void evict(struct tape *t, size_t len)
{
    while (len > 0) {
        size_t at = (size_t)(t->ring_start % t->ring_size);
        size_t part = (size_t)least(len, t->ring_size - at);

        if (!t->spill_broken && (t->spill_size == 0 || !open_spill(t) ||
                                 !write_at(t, t->ring + at, part, t->ring_start)))
            t->spill_broken = true;
        t->ring_start += part;
        len -= part;
    }
    if (t->spill_broken)
        t->start = t->ring_start;
    else if (t->ring_start - t->start > t->spill_size)
        t->start = t->ring_start - t->spill_size;
}

/* LEN <= half of the ring. */
static void add_part(struct tape *t, const char *data, size_t len)
{
    size_t held = (size_t)(t->end - t->ring_start);
    size_t at, first;

    if (held + len > t->ring_size) /* in large pieces: each is a system call */
        evict(t, (size_t)least(held, held + len - t->ring_size + t->ring_size / 4));
    at = (size_t)(t->end % t->ring_size);
    first = (size_t)least(len, t->ring_size - at);
    memcpy(t->ring + at, data, first);
    memcpy(t->ring, data + first, len - first);
    t->end += len;
}

void tape_add(struct tape *t, const void *data, size_t len)
{
    const char *at = data;

    if (!t->ring)
        t->ring = malloc(t->ring_size);
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

static size_t read_spill(const struct tape *t, uint64_t offset, void *buf, size_t size)
{
    uint64_t at = offset % t->spill_size;
    uint64_t n = least(least(size, t->ring_start - offset), t->spill_size - at);
    ssize_t got = pread(t->spill_fd, buf, (size_t)n, (off_t)at);

    return got > 0 ? (size_t)got : 0;
}

size_t tape_read(const struct tape *t, uint64_t offset, void *buf, size_t size)
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
