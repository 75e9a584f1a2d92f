/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_CONTROL_NETWORK_H
#define VIAL_E2B_CONTROL_NETWORK_H

/*
 * What a client wants of a sandbox's network, and what it gets: a gate, where the
 * operator's policy lets callers have one. Gates go by names, so lists of addresses are
 * refused; that programs reach no address by its number is so anyway.
 */

#include <jansson.h>
#include <stdbool.h>

#include "settings/settings.h"

struct network_wish {
    json_t *given; /* `network` as it came; borrowed, or NULL */
    json_t *names; /* of allowOut; borrowed, or NULL */
    bool closed;   /* nothing but those names */
    bool guarded;  /* ports need a token */
};

/* `network` of a create call; `allow_internet_access`. */
int network_read(struct network_wish *w, json_t *value, struct vial_error *err);
int network_read_internet(struct network_wish *w, json_t *value,
                          struct vial_error *err);
/* What can only be said of the whole. */
int network_check(const struct network_wish *w, struct vial_error *err);

/* Adds `network` and `allow` to REQUEST. *ONLINE: something can be reached. */
int network_ask(const struct network_wish *w, const struct settings *settings,
                json_t *request, bool *online, struct vial_error *err);

#endif
