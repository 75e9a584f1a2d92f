/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRES_WIRES_H
#define VIAL_WIRES_WIRES_H

/* What the wires keep between calls. */

#include <jansson.h>
#include <pthread.h>

#include "serve/face.h"
#include "wires/submissions.h"
#include "wires/wire_files.h"

struct wires {
    struct submissions submissions;
    struct wire_files files;
    struct blob unzip; /* the program that unpacks archives, in a vessel */
    json_t *languages; /* by wire: what its file below runtimes/wires says */
    pthread_mutex_t lock;
    uint64_t looked_at; /* which generation's versions these are; 0: none's */
    json_t *versions;   /* by vial's name, of those that can run */
};

/* The entry of the wire's own language NAME; NULL: it has none. Borrowed. */
json_t *wires_language(const struct wires *w, const char *wire, const char *name);

/* The version of a language that can run, "3.11.2", appended to OUT; false: it cannot.
 * The first call asks all of them. */
bool wires_version(struct call *c, const char *language, struct str *out);

/* Has C's answer, a 503, say when to try again. */
void wires_try_later(struct call *c);

/* Base64 that is not strict: what is no letter of it is passed over, and its end may be
 * missing. 0 or -1. */
int wires_unbase64(const char *text, size_t len, struct blob *out);

/* A request for code in that ENTRY's language, with its words. */
int wires_request(json_t *entry, const char *code, size_t len,
                  struct vial_request **out, struct vial_error *err);

#endif
