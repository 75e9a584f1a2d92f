/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_JOURNALING_H
#define VIAL_SETTINGS_JOURNALING_H

/*
 * The block `journal` of a settings file: how many of the caller's own runs are
 * remembered without a daemon, for 'vial logs' and 'vial metrics'. An inner file's
 * value replaces an outer one's; a project file may not have it.
 *
 *   runs    how many; 0, which is usual: none
 *   output  how much of each of their streams, as "16k", which is usual
 */

#include <jansson.h>
#include <stdint.h>

#include "model/fields.h"

#include "vial/error.h"

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
