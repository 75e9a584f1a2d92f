/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_POD_SETTINGS_H
#define VIAL_MODEL_POD_SETTINGS_H

/*
 * What the settings say of all pods of driver kubernetes: where they may run, by which
 * secrets their images are pulled, how important they are, and what they are called. No
 * request has a word in it.
 */

#include "base/str.h"

#include "vial/error.h"

struct pod_settings {
    struct strv node_selector;       /* "KEY=VALUE" */
    struct strv tolerations;         /* "KEY" or "KEY=VALUE", with ":EFFECT" behind */
    struct strv pull_secrets;        /* names */
    char *priority_class;            /* or NULL */
    struct strv labels, annotations; /* "KEY=VALUE" */
};

/* TO is empty; -1: no memory. */
int pod_settings_copy(struct pod_settings *to, const struct pod_settings *from);
void pod_settings_done(struct pod_settings *s);

/* 0, or what in them no cluster would take, or is not the settings' to say: vial's own
 * names, and annotations that would take a wall away. */
int pod_settings_check(const struct pod_settings *s, struct vial_error *err);

/* "KEY=VALUE": how long KEY is; 0: it is no such pair. */
size_t pod_pair_key(const char *pair);

/* A line of `tolerations`, taken apart. */
struct pod_toleration {
    char key[320];
    char value[64];
    bool equal;         /* else any value will do */
    const char *effect; /* NULL: all of them */
};
bool pod_toleration_read(const char *text, struct pod_toleration *out);

#endif
