/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_ENGINE_SESSION_CELL_H
#define VIAL_ENGINE_SESSION_CELL_H

/* One piece of code in a context, while it runs. */

#include "engine/session/context.h"

/* Everything of a cell that comes before its end. */
struct cell {
    struct str out, err;
    size_t limit;
    bool cut[2];
    json_t *displays;
    size_t display_bytes;
    uint64_t held, paid; /* bytes of memory: taken, and had from the engine's budget */
    int interrupts;      /* of ours, for its deadline */
    bool cancelled;      /* by us, since the caller gave up */
    const struct vial_watch *watch; /* or NULL */
    int64_t deadline_ns;
};

/* CELL has its watch and its deadline; the rest of it is filled here. */
int cell_run(struct vial_context *c, struct cell *cell, const char *code, size_t len,
             char **json, struct vial_error *err);

#endif
