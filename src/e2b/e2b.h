/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_E2B_H
#define VIAL_E2B_E2B_H

/*
 * The wire that E2B's SDKs speak, beside the daemon's own routes and on the same port:
 * a control API, and for each sandbox the two servers that their images have inside
 * (envd: programs and files; the code interpreter). A sandbox is a session of the
 * registry. What vial does not do is refused by name.
 *
 *   e2b_open -> { e2b_concerns -> e2b_place, by the head alone -> e2b_handle }* ->
 *   e2b_close, before the registry is closed
 *
 * All functions may be called from several threads.
 */

#include <stdbool.h>

#include "engine/callers/gate.h"
#include "engine/callers/registry.h"
#include "settings/settings.h"
#include "web/web.h"

struct e2b;

/* Who has a key. */
struct e2b_owner {
    char name[96];
    char part[64]; /* names of volumes of its own begin with that and "/" */
    struct quota quota;
    bool sessions; /* may hold some */
    bool images;   /* may have some pulled */
};

struct e2b_options {
    struct registry *registry;
    struct gate *gate;
    /* Whose key that is; false: nobody's. Must not wait. */
    bool (*owner)(void *context, const char *key, struct e2b_owner *out);
    void *context;
    const char *node; /* named in sandboxes' ids, or ""; outlives it */
};

int e2b_open(const struct e2b_options *options, struct e2b **out,
             struct vial_error *err);
void e2b_close(struct e2b *e2b); /* NULL is allowed */

/* Whether a request is one of this wire. */
bool e2b_concerns(const struct web_request *req);

/* Its caller, and what a stranger's body is refused with. */
void e2b_place(struct e2b *e2b, const struct web_request *req, struct web_place *out);

/* One request: what it is served with, and what is to be told of it. */
struct e2b_turn {
    const struct settings *settings;
    struct vial_engine *engine;
    const char *correlation;
    char who[96];     /* out: the caller, or "" */
    char sandbox[32]; /* out: or "" */
    unsigned status;  /* out */
};

void e2b_handle(struct e2b *e2b, struct web_request *req, struct e2b_turn *turn);

#endif
