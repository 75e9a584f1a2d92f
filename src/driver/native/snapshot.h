/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_DRIVER_NATIVE_SNAPSHOT_H
#define VIAL_DRIVER_NATIVE_SNAPSHOT_H

/*
 * The files of a vessel whose root is a writable image become an image of the store:
 * vial-image reads the layer that was written to, and makes one of the store's of it.
 * It is told by a line of JSON, which is written without a library: the keeper has
 * none.
 *
 *   snapshot_learn -> snapshot_start* -> snapshot_done
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "driver/driver.h"

struct launch;

struct snapshot {
    int upper_fd;         /* the layer that was written to; -1: there is none */
    int pidfd;            /* of the vial-image that is under way, or -1 */
    char *store;          /* where its image lies; NULL: it has none */
    char *temporary;      /* its image's name, if that goes with the vessel; or NULL */
    char base[72];        /* that image's digest */
    uid_t first_id;       /* what is 0 inside; 0: all is the caller's own */
    bool ranged;          /* that, or of his range (images/store_ids.h) */
    int64_t bytes, files; /* the most that can have been written */
};

#define SNAPSHOT_NONE                                                                  \
    {                                                                                  \
        .upper_fd = -1, .pidfd = -1                                                    \
    }

/* Takes from L what snapshots will need. */
void snapshot_learn(struct snapshot *s, const struct plan *plan, const char *digest,
                    struct launch *l);

int snapshot_start(struct snapshot *s, const struct snapshot_order *order,
                   struct vial_error *err);

/* Ends what is under way, and removes a temporary image, whose lock is gone. */
void snapshot_done(struct snapshot *s);

#endif
