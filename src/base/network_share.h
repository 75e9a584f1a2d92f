/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_NETWORK_SHARE_H
#define VIAL_BASE_NETWORK_SHARE_H

/*
 * What one caller reaches through the gates of all its vessels: memory that the daemon
 * and those gates have in common, so that no connection waits for an answer. The daemon
 * says how much there is, and gives each gate a place; gates take, and count.
 *
 *   daemon:  network_share_new -> network_share_set
 *            -> { network_share_enter -> network_share_leave }* -> network_share_free
 *   gate:    network_hold_map -> { network_hold_connection | _open | _pay | _spent }*
 *
 * There are no locks, as a gate can be killed at any time. What one has open counts
 * only while its place is its own. The daemon reads nothing here that it acts upon: a
 * gate that was taken over can spoil its caller's share, and no other's.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vial/error.h"

/* 0: no limit. */
struct network_quota {
    int64_t open;                      /* connections at once */
    int64_t per_minute;                /* new ones */
    int64_t in_per_hour, out_per_hour; /* bytes */
};

/* A bucket is full again when its time has come, and empty when that is a whole period
 * ahead. */
enum network_bucket { NETWORK_RATE, NETWORK_IN, NETWORK_OUT, NETWORK_BUCKETS };

#define NETWORK_PLACES 4096u /* of gates */

struct network_share {
    _Atomic uint64_t open_most, most[NETWORK_BUCKETS], full_ns[NETWORK_BUCKETS];
    _Atomic uint32_t used; /* places that were ever given */
    struct {
        _Atomic uint32_t taker; /* 0: nobody's */
        _Atomic uint64_t open;  /* by whom << 32 | how many */
    } places[NETWORK_PLACES];
};

/* The descriptor that gates get, or -errno. */
int network_share_new(struct network_share **out);
void network_share_free(struct network_share *share);
void network_share_set(struct network_share *share, const struct network_quota *quota);
/* One caller at a time. NETWORK_PLACES: there is none left. */
uint32_t network_share_enter(struct network_share *share, uint32_t taker);
void network_share_leave(struct network_share *share, uint32_t place);

/* What a gate is told of its place. */
struct network_place {
    int fd; /* borrowed; -1: its caller has no quota */
    uint32_t place, taker;
};

/* Whoever has many callers, and counts what each of them reaches. */
struct network_shares {
    void *context;
    /* A place for one more vessel of CALLER's, until LEAVE. */
    int (*enter)(void *context, const char *caller, struct network_place *out,
                 struct vial_error *err);
    void (*leave)(void *context, const char *caller, const struct network_place *place);
};

/* A gate's own. */
struct network_hold {
    struct network_share *share; /* NULL: nothing is counted */
    uint32_t place, taker, open;
};

/* FD stays the caller's. */
bool network_hold_map(struct network_hold *hold, int fd, uint32_t place,
                      uint32_t taker);
/* One more connection; false: the caller has no more. */
bool network_hold_connection(struct network_hold *hold, uint64_t now_ns);
void network_hold_closed(struct network_hold *hold);
void network_hold_pay(struct network_hold *hold, enum network_bucket bucket,
                      uint64_t amount, uint64_t now_ns);
/* More bytes went than there were. */
bool network_hold_spent(const struct network_hold *hold, uint64_t now_ns);

#endif
