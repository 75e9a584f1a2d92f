/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_CONTROL_NETWORK_H
#define VIAL_E2B_CONTROL_NETWORK_H

/*
 * What a client wants of a sandbox's network, and what it gets: a gate, where the
 * operator's policy lets callers have one, whose rules are the client's lists within
 * the operator's.
 */

#include <jansson.h>
#include <stdbool.h>

#include "settings/settings.h"

struct network_wish {
    json_t *given;   /* `network` as it came; borrowed, or NULL */
    json_t *allowed; /* allowOut, if it has any; borrowed */
    json_t *denied;  /* denyOut, likewise */
    bool has_names;  /* ALLOWED has */
    bool all;        /* ALLOWED has all traffic */
    bool closed;     /* nothing but ALLOWED */
    bool guarded;    /* ports need a token */
};

/* `network` of a create call; `allow_internet_access`. */
int network_read(struct network_wish *w, json_t *value, struct vial_error *err);
int network_read_internet(struct network_wish *w, json_t *value,
                          struct vial_error *err);
/* The body of a call that changes it. */
int network_read_update(struct network_wish *w, json_t *body, struct vial_error *err);
/* What can only be said of the whole. */
int network_check(const struct network_wish *w, struct vial_error *err);

/* What that comes to. */
struct network_rules {
    bool gated;    /* else it is the operator's, and the lists are NULL */
    bool online;   /* something can be reached */
    json_t *allow; /* texts, as in a request */
    json_t *deny;  /* the client's alone */
};
int network_rules(const struct network_wish *w, const struct settings *settings,
                  struct network_rules *out, struct vial_error *err);
void network_rules_done(struct network_rules *r);

static inline void auto_network_rules_(struct network_rules *r)
{
    network_rules_done(r);
}
#define auto_network_rules __attribute__((cleanup(auto_network_rules_)))

/* Adds `network`, `allow` and `deny` to REQUEST. */
int network_ask(const struct network_rules *r, const struct settings *settings,
                json_t *request, struct vial_error *err);

#endif
