/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_TESTS_FUZZ_VESSEL_H
#define VIAL_TESTS_FUZZ_VESSEL_H

/* What the fuzz targets with drivers of their own share: an input that is read piece by
 * piece, and a vessel that is no more than a socket pair. */

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/driver.h"
#include "fuzz.h"

/* The bytes of an input, or of a part of it, that are left. */
struct bytes {
    const uint8_t *data;
    size_t len;
};

/* Little endian; what is missing is 0. */
static inline uint64_t bytes_number(struct bytes *b, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size && b->len > 0; i++, b->data++, b->len--)
        value |= (uint64_t)*b->data << (8 * i);
    return value;
}

/* The next LEN, or as many as there are. */
static inline struct bytes bytes_take(struct bytes *b, size_t len)
{
    struct bytes part = { b->data, len < b->len ? len : b->len };

    b->data += part.len;
    b->len -= part.len;
    return part;
}

/* The guest's end, which is the caller's to close. */
static inline int vessel_pair(struct vessel *v, const struct driver *driver,
                              const struct plan *plan)
{
    int ends[2];

    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    *v = (struct vessel){ .driver = driver,
                          .stream_fd = ends[0],
                          .death_fd = -1,
                          .event_fd = -1,
                          .level = "namespaces",
                          .limits_by = "cgroup2",
                          .path = "/usr/bin" };
    (void)snprintf(v->id, sizeof(v->id), "v-fuzz");
    v->jail.workdir = strdup(plan->workdir);
    return ends[1];
}

static inline void vessel_unpair(struct vessel *v, int guest_fd)
{
    (void)close(guest_fd);
    (void)close(v->stream_fd);
    jail_done(&v->jail);
}

#endif
