/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_COMPILED_H
#define VIAL_SERVE_COMPILED_H

/*
 * Programs that were compiled, for whoever sends the same one again: graders send one
 * program with each of its inputs, many at once, and batches one checker with each
 * output. Who comes first compiles, the others wait for that. Each caller has programs
 * of its own: how long an answer takes tells nobody what others have sent.
 *
 *   compiled_cache_init -> { compiled_take -> [compiled_made ->] compiled_release }*
 *   -> compiled_cache_done
 */

#include <pthread.h>

#include "serve/stage.h"

#include "vial/request.h"

struct compiled {
    char key[65];
    enum { COMPILED_IN_WORK, COMPILED_READY } state;
    unsigned users;
    bool forgotten; /* nobody finds it any more */
    uint64_t bytes;
    struct vial_request *made; /* NULL: it could not be made */
    struct stage told;         /* what the compiler said; `there` if it ran */
    struct compiled *next;
};

struct compiled_cache {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct compiled *first; /* the newest */
};

int compiled_cache_init(struct compiled_cache *c);
void compiled_cache_done(struct compiled_cache *c);

/* The program of KEY, held. In work: the caller has to make it, and to say
 * compiled_made; else it is ready, after a wait for whoever makes it. NULL: GONE_FD (or
 * -1) became readable, or there is no memory. */
struct compiled *compiled_take(struct compiled_cache *c, const char *key, int gone_fd);
/* It is ready; KEEP: others may have it later. */
void compiled_made(struct compiled_cache *c, struct compiled *p, bool keep);
void compiled_release(struct compiled_cache *c, struct compiled *p);

#endif
