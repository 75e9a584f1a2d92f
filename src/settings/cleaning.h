/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_CLEANING_H
#define VIAL_SETTINGS_CLEANING_H

/*
 * The block `cleanup` of a settings file: how often a process that stays removes what
 * dead ones left behind. An inner file's value replaces an outer one's; a project file
 * may not have it.
 *
 *   interval  as "5m", which is usual; 0: never
 */

#include <jansson.h>
#include <stdint.h>

#include "model/fields.h"

#include "vial/error.h"

struct cleaning {
    int64_t interval_ms;
};

void cleaning_init(struct cleaning *c);
int cleaning_read(struct cleaning *c, json_t *block, const char *where,
                  struct vial_error *err);
json_t *cleaning_json(const struct cleaning *c); /* NULL: no memory */

/* Its only key, as in fields.def. */
const struct field *cleaning_row(void);

#endif
