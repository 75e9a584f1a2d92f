/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BATCH_LINES_H
#define VIAL_BATCH_LINES_H

/* Lines of a file or pipe. Of a line longer than LINES_MOST only its beginning is given
 * out, which is longer than that, too. Who waits for one can be told to stop. */

#include <stdbool.h>
#include <stddef.h>

#include "base/sha256.h"

#include "vial/error.h"

#define LINES_MOST ((size_t)256 << 20)

struct lines {
    int fd, cancel_fd; /* borrowed; cancel_fd readable: stop, or -1 */
    char *data;
    size_t at, len, cap; /* what was read and not given out: data[at, len) */
    size_t number;       /* of the line given out last, from 1 */
    struct sha256 *hash; /* of all that was read, or NULL */
    bool ended;
    bool skips; /* the rest of the line given out last */
};

/* 1: *TEXT and *LEN are the next line, without its end, until the next call; 0: there
 * is none, or it was cancelled; -1. */
int lines_next(struct lines *l, const char **text, size_t *len, struct vial_error *err);
void lines_done(struct lines *l);

#endif
