/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_AUDITING_H
#define VIAL_SETTINGS_AUDITING_H

/*
 * The block `audit` of a settings file: whether and how runs are recorded. The
 * outermost file that has one decides; a project file may not have it. A preset's is
 * what holds where no file says anything; `audit: off` is for nothing to be recorded.
 *
 *   path    where the log lies; absolute. In a preset "{state}" stands for the caller's
 *           state directory (base/state.h)
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
    bool usual; /* a preset said so: its directory is made if need be */
};

/* Takes the block from WHERE, unless an outer file has given one. */
int auditing_read(struct auditing *a, json_t *block, const char *where,
                  struct vial_error *err);
/* The same from a preset; HOME may be NULL. */
int auditing_read_usual(struct auditing *a, json_t *block, const char *where,
                        const char *home, struct vial_error *err);
/* Before the log is opened: the directory that a preset chose is there. */
int auditing_make_place(const struct auditing *a, struct vial_error *err);
json_t *auditing_json(const struct auditing *a); /* null when there is none */
void auditing_done(struct auditing *a);

#endif
