/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_HOUSEKEEPING_H
#define VIAL_SETTINGS_HOUSEKEEPING_H

/* Two small blocks of a settings file: `cleanup` and `journal`. */

#include <jansson.h>
#include <stdint.h>

#include "model/fields.h"

#include "vial/error.h"

/*
 * The block `cleanup` of a settings file: how often a process that stays removes what
 * dead ones left behind. An inner file's value replaces an outer one's; a project file
 * may not have it.
 *
 *   interval  as "5m", which is usual; 0: never
 */

struct cleaning {
    int64_t interval_ms;
};

void cleaning_init(struct cleaning *c);
int cleaning_read(struct cleaning *c, json_t *block, const char *where,
                  struct vial_error *err);
json_t *cleaning_json(const struct cleaning *c); /* NULL: no memory */

/* Its only key, as in fields.def. */
const struct field *cleaning_row(void);

/*
 * The block `journal` of a settings file: how many of the caller's own runs are
 * remembered without a daemon, for 'vial logs' and 'vial metrics'. An inner file's
 * value replaces an outer one's; a project file may not have it.
 *
 *   runs    how many; 0, which is usual: none
 *   output  how much of each of their streams, as "16k", which is usual
 */

struct journaling {
    int64_t runs, output;
};

void journaling_init(struct journaling *j);
int journaling_read(struct journaling *j, json_t *block, const char *where,
                    struct vial_error *err);
json_t *journaling_json(const struct journaling *j); /* NULL: no memory */

/* Its keys, as in fields.def: two of them. */
const struct field *journaling_rows(void);

#endif
