/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_BOX_H
#define VIAL_E2B_BOX_H

/*
 * The sandboxes: what E2B's clients know of a session beyond what it knows itself.
 * Found by an id that cannot be guessed. One that was killed, or whose session has
 * ended, is found by nobody; it is given back once the last of its users has let go of
 * it.
 *
 *   boxes_add -> { boxes_find -> … -> box_release }* -> boxes_remove
 */

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/sha256.h"
#include "e2b/e2b.h"

#define BOX_ID     28 /* "i", and 20 letters and digits; behind them the node */
#define BOX_TOKEN  44 /* 40 hex digits */
#define BOX_HOME   "/home/user"
#define BOX_USER   "user"
#define BOX_ROOT   "root" /* whose home is /root */
#define BOX_MOST_S 86400  /* the longest lease */

struct proc;
struct watch;
struct notebook;
struct volume_key;

/* What it used at a time. */
struct box_load {
    int64_t at_ms;
    double cpu_ms, cpu_pct; /* so far; since the time before */
    uint64_t memory_bytes, cache_bytes, disk_bytes;
};
#define BOX_LOADS 32u

struct box {
    struct box *next;
    struct e2b *e2b;
    unsigned users; /* the table is one of them */
    char id[BOX_ID];
    char owner[96];
    char session[24];
    struct caller *caller;
    struct registered *held;
    char *template_name;
    json_t *metadata, *env;
    char token[BOX_TOKEN];   /* of envd; "": open to who knows the id */
    char traffic[BOX_TOKEN]; /* of all other ports; "": the same */
    json_t *network;         /* as it was asked for, or NULL */
    json_t *denied;          /* ranges that its gate denies because of that, or NULL */
    json_t *asked_env;       /* as NETWORK */
    json_t *mounts;          /* volumes, likewise */
    bool gated;              /* its network is a gate */
    bool has_image;          /* else it is the host's programs, and cannot be saved */
    bool has_root;           /* its programs may be root */
    int64_t cpus_milli, memory_bytes, disk_bytes;
    int64_t most_ms;         /* that one command or cell may take */
    int64_t started_ms;      /* since 1970 */
    pthread_mutex_t leasing; /* held while its lease is renewed, or ends in a pause,
                              * or its network is changed */
    _Atomic int64_t ends_ms;
    atomic_bool dying;         /* killed: its streams are cut */
    _Atomic int64_t paused_ms; /* since 1970; 0: it runs */
    int64_t lease_s;           /* that it was made with */
    bool auto_pause;           /* its lease ends in a pause, */
    bool auto_resume;          /* and any use wakes it */

    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t changed;
    json_t *egress; /* `allowOut` and `denyOut` since they were changed, or NULL */
    bool closed;    /* nothing but `allowOut` was asked for */
    bool online;    /* it has a network, of whatever kind */
    struct proc *procs;
    struct watch *watches;
    struct notebook *notebooks;
    unsigned last_number;             /* of watches and notebooks */
    struct box_load loads[BOX_LOADS]; /* the last ones, in a ring */
    unsigned load_count;
};

struct e2b {
    struct e2b_options options;
    pthread_mutex_t lock; /* for the table, the counts of users, and what follows */
    struct box *boxes;    /* newest first */
    pthread_cond_t lease; /* lease.c: one of them ends earlier now, or all is over */
    pthread_t thread;
    bool has_thread, closing;
    struct builds *builds;
    struct volume_key *volume_keys; /* newest first */
    pthread_cond_t called;          /* a call for a volume is over */
};

/* An empty one, which belongs to the caller. NULL: no memory, or no random bytes. */
struct box *box_new(struct e2b *e2b);
/* It is in the table from now on, and the caller a user of it. */
void boxes_add(struct e2b *e2b, struct box *box);
/* NULL: there is none that lives. */
struct box *boxes_find(struct e2b *e2b, const char *id);
/* Those whose sessions have ended are given back. It may wait for them. */
void boxes_forget_ended(struct e2b *e2b);
/* OWNER's that live, newest first: malloc'ed, each held; NULL: no memory. */
struct box **boxes_of(struct e2b *e2b, const char *owner, size_t *count);
/* The one whose token signed that; see signature.c. */
struct box *boxes_signed(struct e2b *e2b, const struct web_request *req);
/* Ends it. False: another did already. */
bool boxes_remove(struct e2b *e2b, struct box *box);
void box_release(struct box *box); /* NULL is allowed */

static inline void auto_box_(struct box **box)
{
    box_release(*box);
}
#define auto_box __attribute__((cleanup(auto_box_)))

/* Whether its session goes on. */
bool box_lives(struct box *box);
struct vial_session *box_session(const struct box *box);

/* 160 random bits. */
int box_make_token(char out[BOX_TOKEN]);
/* Whether TEXT is SECRET; how long that takes says nothing. */
bool box_same(const char *secret, const char *text);

/* signature.c: what a request's signature is over, of which only the token is missing.
 * It lends texts of the request's. */
struct signature {
    const char *given, *expires;
    struct sha256 hash;
};

/* False: there is none, or none that anybody would have made. The work is bounded:
 * strangers ask for it, of who accepts connections. */
bool signature_read(const struct web_request *req, struct signature *out);
bool signature_fits(const struct signature *s, const struct box *box);
/* Why REQ is refused; NULL: BOX's token has signed it, and it holds. */
const char *signature_wrong(const struct box *box, const struct web_request *req);

/* box_program.c, watch.c, notebook.c: what a box has of theirs, when it goes. */
/* With the lock held: whether any of them runs. */
bool procs_run(const struct box *box);
bool notebooks_run(const struct box *box);
void procs_done(struct box *box);
void watches_done(struct box *box);
void notebooks_done(struct box *box);

#endif
