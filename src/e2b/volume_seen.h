/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_E2B_VOLUME_SEEN_H
#define VIAL_E2B_VOLUME_SEEN_H

/*
 * Volumes as E2B's clients know them (docs/adr/0127). A caller's own, OWNER/NAME, is
 * NAME to him; those that the operator made have their whole names. An id is the whole
 * name with "~" for "/". Which of them a caller may have is the policy's to say.
 */

#include "e2b/http_ask.h"
#include "model/volume.h"

struct volume_seen {
    char name[VOLUME_NAME]; /* the whole one */
    bool own, writable;
};

/* Both: VIAL-VOLUME where there is none that A's owner may have. */
int volume_by_name(struct ask *a, const char *given, struct volume_seen *out,
                   struct vial_error *err);
int volume_by_id(struct ask *a, const char *id, struct volume_seen *out,
                 struct vial_error *err);
/* "NAME:AT:rw", or ":ro" where the owner may only read it, for a request; NULL with
 * ERR. */
json_t *volume_mount(const struct volume_seen *v, const char *at,
                     struct vial_error *err);

/* What A's owner calls it, and its id. */
const char *volume_shown(const struct ask *a, const char *name);
void volume_id(const char *name, char out[VOLUME_NAME]);

/*
 * Who has a key of a volume reads and writes what is in it, as the one who was told it
 * could. It holds for a day after it was told last, or until the server ends.
 */
struct volume_key {
    struct volume_key *next;
    char token[BOX_TOKEN];
    char name[VOLUME_NAME];
    struct e2b_owner owner;
    struct caller *caller;
    int64_t ends_ms;
    unsigned calls; /* that go on, each with a vessel */
};

/* One of A's owner for NAME: the same as before, while it holds. */
int volume_key_tell(struct ask *a, const char *name, char token[BOX_TOKEN],
                    struct vial_error *err);
/* A call by KEY begins, or its vessel has gone. */
void volume_key_count(struct e2b *e2b, const struct volume_key *key, bool begins);
/* Until no call for NAME goes on; not for long. Answers come before vessels go, and who
 * has read a file may well destroy its volume next. */
void volume_keys_wait(struct e2b *e2b, const char *name);
/* The one that REQ has, copied. False: it has none that holds. Must not wait. */
bool volume_key_of(struct e2b *e2b, const struct web_request *req,
                   struct volume_key *out);
/* Those of NAME hold no longer. */
void volume_keys_drop(struct e2b *e2b, const char *name);
void volume_keys_done(struct e2b *e2b);

/* volume_content.c: a call for what is in KEY's volume. */
void volume_content(struct ask *a, const struct volume_key *key);

#endif
