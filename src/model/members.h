/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_MEMBERS_H
#define VIAL_MODEL_MEMBERS_H

/*
 * Tells what a JSON object must look like, and gives its members as C values: by a
 * table of members, which may have tables inside, or a tool's JSON schema. Members that
 * are not named are refused with a suggestion, so that a misspelt one is never passed
 * over.
 */

#include <jansson.h>
#include <stdbool.h>

#include "vial/error.h"

enum member_type {
    MEMBER_TEXT,    /* const char *: borrowed, without NUL */
    MEMBER_BYTES,   /* struct blob: borrowed from the JSON value */
    MEMBER_BOOL,    /* bool */
    MEMBER_COUNT,   /* int64_t >= 0 */
    MEMBER_MS,      /* int64_t: a duration */
    MEMBER_SIZE,    /* int64_t: bytes */
    MEMBER_INTEGER, /* this and the next come from schemas alone */
    MEMBER_NUMBER,
    MEMBER_TEXTS,  /* json_t *: a list of texts, borrowed */
    MEMBER_WORDS,  /* json_t *: an object whose values are texts */
    MEMBER_LIST,   /* json_t *: a list; its entries are objects as `inside` says */
    MEMBER_MAP,    /* json_t *: an object; the same of its values */
    MEMBER_OBJECT, /* json_t *: an object as `inside` says */
    MEMBER_ANY,
};

struct member {
    const char *name; /* NULL ends the table */
    enum member_type type;
    void *out;   /* gets the value, if the member is there; NULL: it is only judged */
    bool needed; /* its absence is refused */
    const struct member *inside; /* NULL: whatever it may be */
    const json_t *schema;        /* members.c's own: instead of `inside` */
    bool nullable;               /* the same: it may be null */
};

/* Judges OBJECT and reads its members. WHERE is what it is, for messages ("preset
 * mine"); NULL: the body of a request, whose members are told by their names alone. */
int members_read(json_t *object, const struct member *table, const char *where,
                 struct vial_error *err);

/* Judges the arguments of a tool by its SCHEMA, as far as our own schemas go: type (or
 * [type, "null"]), enum, properties, required, additionalProperties, items, and the
 * bounds of numbers, lengths and lists. Texts never hold NUL, unless they have a
 * contentMediaType. The error reads behind "invalid arguments: ". */
int members_judge(json_t *arguments, const json_t *schema, struct vial_error *err);

#endif
