/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_NOTEBOOK_H
#define VIAL_E2B_NOTEBOOK_H

/*
 * What E2B calls a code context: an interpreter of the sandbox that remembers, one of
 * vial's contexts. It is opened at its first use; whoever has a turn with it is alone.
 *
 *   notebook_find, notebook_make -> notebook_enter -> … -> notebook_leave ->
 *   notebook_release
 */

#include "e2b/http_ask.h"

#include "vial/context.h"

struct notebook {
    struct notebook *next;
    char id[40];
    const char *language; /* E2B's name for it, and vial's */
    const char *name;
    char *cwd;
    bool usual;   /* the language's own: code that names none runs in it */
    bool removed; /* nobody gets a turn any more */
    bool busy, broken;
    unsigned users;               /* the list is one of them */
    unsigned count;               /* of executions */
    struct vial_context *context; /* NULL: not opened yet; who has the turn uses it */
};

/* Those that are there from the start. */
int notebooks_begin(struct box *box);

/* By its id; NULL: there is none. */
struct notebook *notebook_find(struct box *box, const char *id);
/* LANGUAGE's own, made at first use; NULL with ERR: there is none. */
struct notebook *notebook_usual(struct box *box, const char *language,
                                struct vial_error *err);
/* Another one. CWD may be NULL: the home. */
struct notebook *notebook_make(struct ask *a, const char *language, const char *cwd,
                               struct vial_error *err);
void notebook_release(struct box *box, struct notebook *n);

/* Waits for a turn, in which the interpreter runs; -1: with ERR. */
int notebook_enter(struct ask *a, struct notebook *n, struct vial_error *err);
void notebook_leave(struct box *box, struct notebook *n);

/* Another interpreter in its place; or none. Whatever runs in it is interrupted. */
int notebook_restart(struct ask *a, struct notebook *n, struct vial_error *err);
int notebook_remove(struct ask *a, struct notebook *n, struct vial_error *err);

/* Variables that hold for the next cell; and what the sandbox itself has, again. */
int notebook_set_env(const struct box *box, const struct notebook *n, json_t *env,
                     bool set, struct vial_error *err);

#endif
