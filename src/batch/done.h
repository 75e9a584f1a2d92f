/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_DONE_H
#define VIAL_BATCH_DONE_H

/* What an output file has already, so that a batch can go on where it was stopped. It
 * is kept in a file: a batch of any length needs no more memory than a short one. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vial/error.h"

struct done {
    int fd; /* of a file without a name: a hash per index, 0: that row is not there; -1
             */
};

/* Each line that is there already is told. */
typedef void done_seen(void *context, const json_t *line);

/* Reads what is whole in FD, an output file that can be written, and cuts a line off
 * that was not finished. PATH is for messages. */
int done_read(int fd, const char *path, struct done *out, done_seen *seen,
              void *context, struct vial_error *err);
/* Takes the lines of rows that vial failed on out of the file at PATH, so that they are
 * run again. Until it is done, the file is as it was. */
int done_drop_failed(const char *path, struct vial_error *err);
/* Whether row INDEX is there; VIAL-CONFLICT if it was another row than the one whose
 * hash is HASH. */
int done_has(const struct done *d, size_t index, const char *hash, bool *out,
             struct vial_error *err);
void done_free(struct done *d);

#endif
