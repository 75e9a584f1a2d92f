/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_HISTORY_H
#define VIAL_SERVE_HISTORY_H

/*
 * The runs of this daemon: those that go on, and the last ones that ended, each with
 * a bounded part of its output. A run is known by the id of its request until it has
 * ended, and by its own id as well from then on.
 *
 *   history_init -> { history_begin -> history_end }* -> history_done
 */

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/str.h"

#include "vial/result.h"

struct record {
    struct record *next;
    char request[72]; /* "q-…" or what the client called it */
    char id[24];      /* "r-…", or "" while it runs */
    char caller[96];
    char what[64]; /* language, or the command's first word */
    int64_t started_ms;
    int cancel_fd; /* an epoll set that makes the run end when readable; or -1 */
    bool running;
    json_t *asked;  /* of the request, what is shown; or NULL */
    json_t *result; /* whole but for its output and files */
    struct str out, err;
};

struct history {
    pthread_mutex_t lock;
    struct record *newest;
    size_t count, most, keep_bytes;
    int ready_fd; /* always readable */
};

int history_init(struct history *h, struct vial_error *err);
void history_done(struct history *h);
void history_set(struct history *h, size_t most, size_t keep_bytes);

/* NULL: no memory; then the run is not recorded. */
struct record *history_begin(struct history *h, const char *request, const char *caller,
                             const char *what, int cancel_fd);
/* Takes ASKED, which may be NULL, as R may. */
void history_asked(struct history *h, struct record *r, json_t *asked);
/* Live output, from the run's thread; the first KEEP_BYTES are kept. */
void history_output(struct history *h, struct record *r, int stream, const void *data,
                    size_t len);
/* RESULT's own output is kept if none came live. R may be NULL. */
void history_end(struct history *h, struct record *r, const struct vial_result *result);

/* Newest first, CALLER's alone unless NULL; without output. NULL: no memory. */
json_t *history_list(struct history *h, const char *caller, size_t limit);
/* Which run is meant: by its id, or by its request's, which is a name among CALLER's.
 * With OTHERS, one of somebody else's if CALLER has none of that name; VIAL-CONFLICT if
 * several have. */
struct history_wish {
    const char *caller, *id;
    bool others;
    bool running; /* only one that goes on */
};

/* With output; NULL: VIAL-ROUTE, or VIAL-CONFLICT. */
json_t *history_find(struct history *h, const struct history_wish *wish,
                     struct vial_error *err);
/* Ends one that runs. */
int history_cancel(struct history *h, const struct history_wish *wish,
                   struct vial_error *err);
void history_cancel_all(struct history *h);

#endif
