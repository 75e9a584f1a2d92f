/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_POOL_STOCK_H
#define VIAL_ENGINE_POOL_STOCK_H

/* Shared by pool.c (which takes), stock.c (which fills) and pool_limits.c (which says
 * how much there may be). All of it is under the pool's lock, except what is marked
 * constant.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "engine/pool/pool.h"
#include "engine/pool/prestart.h"
#include "engine/pool/reaper.h"
#include "engine/pool/zygote_holder.h"

/*
 * Callers who asked for a vessel and found none wait here, first come first served.
 * Each sleeps by itself and is handed a vessel as it is made. All of it is under the
 * pool's lock.
 */

struct waiter {
    struct waiter *next;
    pthread_cond_t called;
    struct ready *out;
    bool served, dismissed;
};

/* Zero-initialise. */
struct queue {
    struct waiter *first, *last;
    unsigned count;
};

/* Sleeps for at most MS; true when *OUT is a vessel. */
bool queue_wait(struct queue *q, pthread_mutex_t *lock, int64_t ms, struct ready *out);
/* Hands R to the one who waits longest; false when there is nobody. */
bool queue_serve(struct queue *q, const struct ready *r);
/* All go without. */
void queue_dismiss(struct queue *q);

/* Shapes at once; of them those with a zygote of one caller's, or of nobody's yet; and
 * those made for one caller. */
#define POOL_STOCKS  32
#define POOL_ZYGOTES 16
#define POOL_ASKED   6
#define STOCK_MAX    1024 /* vessels in one */

struct stock {
    struct pool *pool; /* constant, as the next four */
    const struct driver *driver;
    struct native_shared *shared; /* the pool's, or NULL */
    struct plan *plan;
    char *key;
    bool forks, prestarts; /* constant: interpreters wait inside (zygote, prestart) */
    bool apart;  /* constant: only ASKER gets vessels from here; nobody's yet if NULL */
    char *asker; /* the caller who asked for it first; NULL: the operator */
    atomic_uint users; /* vessels taken from here that still exist */

    pthread_cond_t changed; /* for its thread */
    struct ready *idle;     /* ceiling of them */
    unsigned idle_count, pinned;
    unsigned template; /* how many are to wait by the image's template; 0: as usual */
    unsigned asking; /* who are about to take one, or wait: it must not go meanwhile */
    bool ended;
    unsigned making, helpers;  /* being made; threads beside its own that make some */
    struct queue queue;        /* who ask, and find none for the moment */
    unsigned in_use;           /* taken, and a program is under way */
    int64_t hurry_ns;          /* when it is filled up, whoever runs */
    unsigned burst;            /* asked for since the last tick */
    double peak;               /* the largest of late, fading */
    int64_t used_ns;           /* when last asked for */
    struct backoff pause;      /* after a failure */
    int64_t prestart_retry_ns; /* when an interpreter is tried again */
    char held[PRESTART_SAID];  /* what those started ahead are told */

    struct zygote_holder holder; /* has a lock of its own */
    uint64_t taken, missed, refills, failures, lost, unfit;
    double refill_ms;      /* a moving average */
    double quick_ms;       /* about the quickest of late */
    uint64_t pss_bytes;    /* of a waiting one, as last weighed */
    int64_t weighed_ns;    /* when, with as many as there are at rest */
    struct vial_error why; /* the last failure */
};

struct pool {
    struct vial_engine *engine; /* borrowed; constant, as the next seven */
    bool by_caller;             /* no two callers have children of one zygote */
    unsigned target, ceiling, idle_s;
    unsigned cores; /* asking for them means reading a file */
    uint64_t memory_bytes;
    struct strv imports;
    struct reaper reaper;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* something waits that did not, or a stock has ended */
    const struct driver *supplier; /* whose shared these are */
    struct native_shared *shared;  /* or NULL */
    unsigned orphans;              /* removed at the start, and not told of yet */
    struct stock *stocks[POOL_STOCKS];
    unsigned stock_count, threads;
    bool closing;
    uint64_t unfit; /* asked for what cannot wait */
};

/* The thread of a stock: fills it, and ends with it. */
void *stock_work(void *context);
unsigned stock_wanted(const struct stock *s);
/* Names what is too scarce for one more: "memory", "descriptors"; NULL: nothing. */
const char *stock_lacks(const struct stock *s);
/* The caller needs its descriptors more. */
bool stock_is_too_large(const struct stock *s);
/* One of its vessels has been given to somebody. */
void stock_count_taken(struct stock *s);
/* The use that a vessel was given for is over. Without the pool's lock. */
void stock_count_over(struct stock *s);
void stock_free(struct stock *s);

#endif
