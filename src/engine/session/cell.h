/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_SESSION_CELL_H
#define VIAL_ENGINE_SESSION_CELL_H

/* One piece of code in a context, while it runs. */

#include "engine/session/context.h"

enum cell_kind { CELL_STDOUT, CELL_STDERR, CELL_DISPLAY };

#define CELL_PIECES 4096u

/* What came without anything else between: characters of a stream, or displays. */
struct cell_piece {
    enum cell_kind kind;
    size_t length;
};

/* Everything of a cell that comes before its end. */
struct cell {
    struct output kept[2]; /* of stdout and stderr */
    json_t *displays;
    struct cell_piece *order; /* the first CELL_PIECES of it */
    size_t pieces;
    bool order_full;
    size_t display_bytes;
    uint64_t held, paid; /* bytes of memory: taken, and had from the engine's budget */
    int interrupts;      /* of ours, for its deadline */
    bool cancelled;      /* by us, since the caller gave up */
    const struct vial_watch *watch; /* or NULL */
    int64_t slept_ns;               /* of its session, as far as the deadline knows */
    int64_t deadline_ns;
};

/* CELL has its watch and its deadline; the rest of it is filled here. */
int cell_run(struct vial_context *c, struct cell *cell, const char *code, size_t len,
             char **json, struct vial_error *err);

#endif
