/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_AUDITING_H
#define VIAL_MODEL_AUDITING_H

/*
 * The block `audit` of a settings file: whether and how runs are recorded. The
 * outermost file that has one decides; a project file may not have it.
 *
 *   path    where the log lies; absolute
 *   code    "hash" (usual) or "text": the program's text as well, redacted
 *   sync    "each" (usual): on disk before the caller hears of it; or "lazy"
 *   rotate  bytes of one file, as "64m"
 *   keep    how many older files are kept; 0: all
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "vial/error.h"

struct auditing {
    char *path; /* NULL: nothing is recorded */
    char *from; /* which file said so */
    int64_t rotate;
    int64_t keep;
    bool lazy, code_text;
};

/* Takes the block from WHERE, unless an outer file has given one. */
int auditing_read(struct auditing *a, json_t *block, const char *where,
                  struct vial_error *err);
json_t *auditing_json(const struct auditing *a); /* null when there is none */
void auditing_done(struct auditing *a);

#endif
