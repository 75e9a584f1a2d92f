/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_KEYS_H
#define VIAL_SERVE_KEYS_H

/*
 * Idempotency keys: who sends the same request again under the same key gets the
 * first answer, and nothing is done twice. Answers are kept for ten minutes, within
 * a bound; a key is its caller's alone.
 *
 *   keys_begin -> KEYS_NEW: do it, then keys_end (or keys_drop)
 */

#include <pthread.h>
#include <stdint.h>

#include "base/str.h"

#include "vial/error.h"

struct key_entry {
    struct key_entry *next;
    char caller[96];
    char key[256];
    char hash[65]; /* of the request */
    int64_t at_ns;
    unsigned status; /* 0: under way */
    struct blob body;
};

struct keys {
    pthread_mutex_t lock;
    struct key_entry *first; /* newest first */
    size_t count, bytes;
};

enum keys_state { KEYS_NEW, KEYS_KNOWN, KEYS_REFUSED };

int keys_init(struct keys *k);
void keys_done(struct keys *k);

struct keys_answer {
    unsigned status;
    struct blob body;
};

/* KEYS_KNOWN: *OUT is the first answer; its body is the caller's to release.
 * KEYS_REFUSED: ERR says why (VIAL-IDEMPOTENCY, or VIAL-VALUE for a bad key). */
enum keys_state keys_begin(struct keys *k, const char *caller, const char *key,
                           const char *hash, struct keys_answer *out,
                           struct vial_error *err);
void keys_end(struct keys *k, const char *caller, const char *key, unsigned status,
              const char *body, size_t len);
/* Nothing came of it: the key may be used again. */
void keys_drop(struct keys *k, const char *caller, const char *key);

#endif
