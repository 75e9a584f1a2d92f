/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_POLICY_H
#define VIAL_MODEL_POLICY_H

/*
 * A policy is what the operator allows. A request never widens it: one that goes beyond
 * is refused, not clipped. The first settings file that gives a value replaces the
 * built-in one; each later layer can only tighten (numbers: the lowest wins; lists: the
 * intersection; require and deny: the union). Once sealed, nothing can be raised any more,
 * built-in values included. policy.def is its table, as fields.def is the request's.
 */

#include <jansson.h>
#include <stdint.h>

#include "base/str.h"
#include "model/request.h"

#include "vial/error.h"

enum policy_id {
#define POLICY_NUMBER(name, ...) POLICY_ID_##name,
#define POLICY_LIST(name, ...)   POLICY_ID_##name,
#include "model/policy.def"
#undef POLICY_NUMBER
#undef POLICY_LIST
    POLICY_ID__COUNT
};

/* POLICY_NUMBER(name, type, cap_of_field, default, help) and
 * POLICY_LIST(name, help): an unset list allows everything, except mount_roots,
 * where unset allows what plan building judges safe. */
struct policy {
#define POLICY_NUMBER(name, ...) int64_t name;
#define POLICY_LIST(name, ...)   struct strv name;
#include "model/policy.def"
#undef POLICY_NUMBER
#undef POLICY_LIST
    uint64_t set;                   /* a bit per row: given by a layer of settings */
    char *origin[POLICY_ID__COUNT]; /* which one, or NULL: built in */
    bool sealed;
};

/* The table. */
struct policy_row {
    struct field f;     /* how it is read and shown, but for its range */
    enum field_id caps; /* FIELD_ID__COUNT for a list */
    size_t offset;      /* of its member */
};

extern const struct policy_row policy_rows[]; /* POLICY_ID__COUNT */

int policy_find(const char *name); /* its enum policy_id; -1: unknown */

/* The row's F; a cap on a number has that number's own range. */
struct field policy_range(enum policy_id id);

int policy_init(struct policy *p, struct vial_error *err); /* built-in caps */
int policy_tighten(struct policy *p, json_t *object, const char *where,
                   struct vial_error *err);
void policy_seal(struct policy *p);

/* An entry of `networks`: what the language's own entry has is allowed for it. Plan
 * building judges that, since it knows the language; the keeper, which does not,
 * refuses what the list does not name itself. */
#define POLICY_BY_LANGUAGE "language"

/* Refuses a request above a cap: names field, value, cap and where to raise it.
 * Language, image and driver are judged again once they are resolved. */
int policy_check(const struct policy *p, const struct vial_request *req,
                 struct vial_error *err);

/* The cap on a field; INT64_MAX when it has none. */
int64_t policy_cap(const struct policy *p, enum field_id id);
/* The same if an operator has set it, who means those too who name no limit; else 0. */
int64_t policy_implied(const struct policy *p, enum field_id id);

/* Refuses a NAME that list ID does not have, or matches ("python:*"). WHAT is
 * for the message: "driver". */
int policy_check_list(const struct policy *p, enum policy_id id, const char *what,
                      const char *name, struct vial_error *err);

/* Whether IMAGE may be pulled at all: it may be used, and not every pull is forbidden.
 */
int policy_check_pull(const struct policy *p, const char *image,
                      struct vial_error *err);

/* "AMOUNT exceeds the policy's …": the refusal of a cap. WHAT is the field. */
int policy_refuse(const struct policy *p, enum policy_id id, const char *what,
                  int64_t amount, struct vial_error *err);

/* Each value with where it came from. NULL without memory. */
json_t *policy_json(const struct policy *p);
void policy_done(struct policy *p);

#endif
