/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_SESSION_SPOOL_H
#define VIAL_ENGINE_SESSION_SPOOL_H

/*
 * An endless stream of bytes, each with its absolute offset, of which the last
 * part is kept: the newest in memory, what is older in an unlinked file, what is
 * older still nowhere. Readers hold offsets, the spool knows none of them.
 *
 * Somebody pays for both, by the piece; who cannot pay for more of the file has the
 * oldest bytes overwritten sooner, and who cannot pay for the ring keeps nothing.
 *
 *   start <= ring_start <= end;  [start, ring_start) lies in the file,
 *                                [ring_start, end) in memory
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"

/* The account that pays for a spool. */
struct spool_payer {
    bool (*take)(void *context, enum budget_kind kind, uint64_t bytes);
    void (*give)(void *context, enum budget_kind kind, uint64_t bytes);
    void *context;
};

struct spool {
    const struct spool_payer *payer; /* or NULL; borrowed */
    uint64_t start, ring_start, end;
    char *ring; /* ring_size bytes, allocated with the first byte */
    size_t ring_size;
    uint64_t spill_size; /* of the file, which is a ring as well */
    uint64_t spill_paid; /* of it, from its begin on */
    int spill_fd;        /* or -1 */
    bool spill_broken;   /* it could not be made or written: nothing goes there */
    bool ended;          /* nothing comes any more */
};

/* RING must not be 0. */
void spool_init(struct spool *t, size_t ring, uint64_t spill,
                const struct spool_payer *payer);
void spool_add(struct spool *t, const void *data, size_t len);
/* Copies what there is from OFFSET on, which lies within [start, end]; at most
 * SIZE bytes. 0 at the end, or when the file cannot be read. */
size_t spool_read(const struct spool *t, uint64_t offset, void *buf, size_t size);
/* Nothing comes any more (as `ended` says): memory is kept for what is there alone, and
 * for MOST bytes where there is no file. */
void spool_end(struct spool *t, size_t most);
/* Forgets all but the newest MOST bytes, and those too that are not in memory. */
void spool_trim(struct spool *t, size_t most);
bool spool_is_empty(const struct spool *t);
void spool_done(struct spool *t);

#endif
