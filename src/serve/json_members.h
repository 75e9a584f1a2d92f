/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_JSON_MEMBERS_H
#define VIAL_SERVE_JSON_MEMBERS_H

/* The members of a JSON object that a client sent, read by a table. What the table
 * does not name is refused, with a suggestion. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "vial/error.h"

enum member_type {
    MEMBER_TEXT,  /* const char *: borrowed, without NUL */
    MEMBER_BYTES, /* struct blob: borrowed from the JSON value */
    MEMBER_COUNT, /* int64_t */
    MEMBER_MS,    /* int64_t: a duration */
    MEMBER_BOOL,  /* bool */
    MEMBER_LIST,  /* json_t *: array, borrowed */
    MEMBER_MAP,   /* json_t *: object, borrowed */
};

struct member {
    const char *name; /* NULL ends the table */
    enum member_type type;
    void *out; /* left as it is when the member is not there */
};

int member_read(json_t *object, const struct member *table, struct vial_error *err);

#endif
