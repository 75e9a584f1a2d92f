/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_CALLERS_GATE_H
#define VIAL_ENGINE_CALLERS_GATE_H

/*
 * The callers, and what each of them has: the one place where quotas are taken and
 * given back.
 *
 *   gate_init -> gate_caller -> { gate_enter -> gate_leave     a run
 *                               | gate_start -> gate_end       a program of a session
 *                               | gate_take -> gate_give }*    the rest -> gate_done
 *
 * Runs: so many go on at once; others wait, each caller in a line of its own, and the
 * lines take turns, so that a caller with a thousand runs does not hold up one with a
 * single run. When all waiting places are taken, the longest line loses its last.
 *
 * Turns divide the processors, of which a run that goes on for long should need little
 * (the keeper sees to that): after a while it gives its turn on, and counts for its
 * caller alone. Only so many may; beyond them a run keeps its turn.
 *
 * Programs in sessions (execs and cells) do not wait: they count for the caller's own
 * quotas, with its runs, and beyond these they are refused.
 *
 * The rest is shared: whoever has much may take more only while much is left, so that
 * whoever comes next finds room.
 *
 * All functions may be called from several threads.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/network_share.h"

#include "vial/error.h"

/* The quota of one caller; 0: no limit, though runs leave some room for others. */
struct quota {
    int64_t concurrency;
    int64_t runs_per_minute;
    int64_t cpu_per_minute_ms;
    struct network_quota network; /* through the gates of all its vessels */
};

/* The things that callers share; gate.c has their table. */
enum gate_kind {
    GATE_CONNECTIONS,
    GATE_REQUESTS, /* under way, and threads that serve them */
    GATE_BODIES,   /* bytes of requests' bodies */
    GATE_VOLUMES,  /* questions for volumes, of which the keeper answers few at once */
    GATE_KINDS,
};

/* One run on its way through; it stays where it is from gate_enter to gate_leave. */
struct gate_pass {
    double queue_ms;  /* how long it waited */
    unsigned retry_s; /* when refused: how long to wait before the next try */

    /* The gate's own. */
    struct gate_pass *next;
    struct caller *caller;
    int64_t began_ns;
    bool lasts; /* it gave its turn on */
};

struct gate_waiter {
    struct gate_waiter *next;
    struct gate_pass *pass;
    int wake_fd;
    enum { WAITER_WAITS, WAITER_GOES, WAITER_PUSHED_OUT } state;
};

struct caller {
    struct caller *next;
    struct gate *gate;
    char name[96]; /* "uid:1000", "token:ci" */
    struct quota quota;
    unsigned running, waiting;
    unsigned lasting;  /* of those that run: without a turn */
    unsigned programs; /* in sessions */
    struct gate_waiter *first, *last;
    double runs_left, cpu_left_ms; /* buckets that fill up over a minute */
    int64_t filled_ns;
    uint64_t runs, refused;
    uint64_t has[GATE_KINDS];
    struct network_share *share; /* NULL: it never had such a quota */
    int share_fd;
    uint32_t takers; /* the last one's number there */
    bool unknown;    /* anybody may be this one: who they are is judged elsewhere */
};

struct gate {
    pthread_mutex_t lock;
    struct caller *callers;  /* they stay until gate_done */
    struct caller *turn;     /* whose run was let in last */
    struct gate_pass *turns; /* of those that run and have one */
    unsigned running;        /* how many these are */
    unsigned lasting, lasting_most;
    int64_t lasts_ns;
    unsigned waiting, most, places;
    int64_t wait_ms;
    bool no_runs, shut;
    uint64_t all[GATE_KINDS], taken[GATE_KINDS]; /* how much there is */
};

/* How many runs a setting CONCURRENCY allows; 0: four for each core. */
unsigned gate_most(int64_t concurrency);

int gate_init(struct gate *g, struct vial_error *err);
void gate_done(struct gate *g);

/* How many go on, how many wait, and for how long. May change at any time. */
void gate_set(struct gate *g, unsigned most, unsigned places, int64_t wait_ms);

/* How many runs may go on without a turn, and after which time they do. A caller has at
 * most as many of them as are left. 0, as at first: a run keeps its turn. */
void gate_last(struct gate *g, unsigned most, int64_t after_ms);

/* The caller of that name, made at first sight. NULL: no memory. */
struct caller *gate_caller(struct gate *g, const char *name, const struct quota *quota);
/* The same for a name that anybody may come under: it has a small share. */
struct caller *gate_unknown(struct gate *g, const char *name,
                            const struct quota *quota);

/* The same if it was seen before; else NULL. */
struct caller *gate_known(struct gate *g, const char *name);

/* Waits until CALLER may run. VIAL-RATE: its quota is used up; VIAL-BUSY: too many
 * wait, or it waited for too long; VIAL-CANCELLED: GONE_FD (or -1) became readable. */
int gate_enter(struct gate *g, struct caller *caller, int gone_fd,
               struct gate_pass *pass, struct vial_error *err);
/* The same, but it waits no longer than MOST_MS. */
int gate_enter_within(struct gate *g, struct caller *caller, int gone_fd,
                      int64_t most_ms, struct gate_pass *pass, struct vial_error *err);

/* The run of PASS is over and used CPU_MS. */
void gate_leave(struct gate *g, struct gate_pass *pass, double cpu_ms);

/* A program in a session of CALLER's starts. VIAL-RATE: its quota is used up;
 * VIAL-BUSY: it has as many as it may. */
int gate_start(struct gate *g, struct caller *caller, struct gate_pass *pass,
               struct vial_error *err);
/* The same for COUNT at once: all of them, or none. Each ends by itself. */
int gate_start_several(struct gate *g, struct caller *caller, unsigned count,
                       struct gate_pass *pass, struct vial_error *err);
void gate_end(struct gate *g, struct caller *caller);

/* CALLER's sessions have used CPU_MS. */
void gate_used(struct gate *g, struct caller *caller, double cpu_ms);

/* How much of KIND there is; 0, as at first: without an end. */
void gate_share(struct gate *g, enum gate_kind kind, uint64_t all);
/* False: CALLER has its share. */
bool gate_take(struct gate *g, struct caller *caller, enum gate_kind kind,
               uint64_t amount);
void gate_give(struct gate *g, struct caller *caller, enum gate_kind kind,
               uint64_t amount);
/* One of GATE_VOLUMES, to be given back. VIAL-RATE: CALLER has its share. */
int gate_take_volumes(struct gate *g, struct caller *caller, struct vial_error *err);

/* A place for one more vessel with a gate of the caller of that name, until it is given
 * back. VIAL-BUSY: there is none. */
int gate_network_enter(struct gate *g, const char *caller, struct network_place *out,
                       struct vial_error *err);
void gate_network_leave(struct gate *g, const char *caller,
                        const struct network_place *place);

/* For what is counted in small numbers: whether someone who has OWN of the TAKEN may
 * have one more of ALL, which leaves at least an eighth of what they have then. */
bool gate_leaves_some(unsigned all, unsigned taken, unsigned own);

/* No further run lines up; those that wait, and programs in sessions, go on. */
void gate_end_runs(struct gate *g);
/* Nobody is let in any more; those who wait are refused. */
void gate_shut(struct gate *g);

/* Running, with or without a turn; waiting. */
void gate_count(struct gate *g, unsigned *running, unsigned *waiting);

#endif
