/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_LIMITS_H
#define VIAL_MODEL_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/fields.h"

/* The limits of a run (limits.def). 0 means no limit of that kind. */
struct limits {
#define LIMIT(field, member, ...) int64_t member;
#include "model/limits.def"
#undef LIMIT
};

enum {
#define LIMIT(field, member, ...) LIMIT_ID_##member,
#include "model/limits.def"
#undef LIMIT
    LIMIT_COUNT
};

/* Tells who holds a limit. That decides what a vessel can be used for which was opened
 * before its request (engine/pool/pool_key.c). */
enum limit_hold {
    LIMIT_BY_ENGINE,  /* the engine, for each run: any vessel will do */
    LIMIT_BY_BOTH,    /* the same; the vessel's own stands behind it, no lower */
    LIMIT_LOWERED,    /* the vessel, in which it can be lowered before it is used */
    LIMIT_AT_OPENING, /* the vessel, as it was opened */
};

/* Which request field each member comes from. */
struct limit_row {
    enum field_id field;
    const char *name; /* the member's */
    size_t offset;
    bool needed; /* never 0 in a plan */
    enum limit_hold hold;
};

extern const struct limit_row limit_rows[LIMIT_COUNT];

int64_t *limits_at(struct limits *limits, const struct limit_row *row);
int64_t limits_get(const struct limits *limits, const struct limit_row *row);

#endif
