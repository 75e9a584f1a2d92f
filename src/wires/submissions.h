/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_SUBMISSIONS_H
#define VIAL_WIRES_SUBMISSIONS_H

/*
 * Judge0's submissions: each runs in a thread of its own, which waits in its caller's
 * line, and is remembered for at least an hour if there is room. Callers see their own.
 *
 *   submissions_init -> { submissions_add -> submission_start | submission_run ->
 *   submissions_find -> submission_release }* -> submissions_done
 */

#include <pthread.h>

#include "base/clock.h"
#include "wires/judge0_words.h"

struct submission {
    char token[37];
    char owner[96];
    struct judge0_asked asked;
    json_t *entry_name; /* the language's, with its version */
    char created[CLOCK_STAMP_SIZE], finished[CLOCK_STAMP_SIZE];
    int status;
    struct str out, err, compile_output;
    char message[sizeof(((struct vial_error *)0)->message)];
    int exit_code, exit_signal; /* -1, 0: none */
    bool late;                  /* it never had its turn */
    bool timed;                 /* the next three are known */
    double cpu_s, wall_s;
    uint64_t memory_bytes;

    unsigned users;
    bool deleted;     /* nobody finds it, and it goes with its last user */
    int64_t ended_ns; /* 0: not yet */
    uint64_t bytes;
    struct submission *next; /* the one before it */
};

struct submissions {
    pthread_mutex_t lock; /* for all of them, once they are added */
    pthread_cond_t changed;
    struct submission *newest;
    uint64_t bytes;
    unsigned running;
    int closing_fd; /* readable: all have to end */
};

int submissions_init(struct submissions *s);
/* Ends what runs, and waits for it. */
void submissions_done(struct submissions *s);

/* Takes ASKED. *OUT is held. -1: there is no room. */
int submissions_add(struct call *c, struct judge0_asked *asked, const char *language,
                    struct submission **out);
/* Has it run by itself; -1: its caller has too many. */
int submission_start(struct call *c, struct submission *sub);
/* Runs it now. */
void submission_run(struct call *c, struct submission *sub);
/* Has its end told where it asked for that, by a thread of its own; submission_start
 * does so by itself. */
void submission_call_back(struct call *c, struct submission *sub);
/* judge0.c: what is told then. malloc'ed or NULL. */
char *judge0_callback_text(struct submissions *all, const struct submission *s);
/* C's own of that token, held; or NULL. */
struct submission *submissions_find(struct call *c, const char *token);
void submission_release(struct call *c, struct submission *sub);
/* Forgets it, which its caller holds. False: it has not ended. */
bool submission_delete(struct call *c, struct submission *sub);
/* How many C has; of these, the newest but FROM are held in OUT, at most MOST. */
size_t submissions_list(struct call *c, size_t from, size_t most,
                        struct submission **out, size_t *got);

#endif
