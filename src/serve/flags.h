/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_FLAGS_H
#define VIAL_SERVE_FLAGS_H

/* The command line of viald. `vial serve` has help for it, and starts it. */

#include "serve/service.h"

struct flags {
    struct serve_sources sources; /* its `flags` is owned */
    int64_t idle_exit_ms;         /* 0: stays */
    bool openapi;                 /* only to say what it would serve */
};

int flags_read(struct flags *f, int argc, char **argv, struct vial_error *err);
void flags_done(struct flags *f);

#endif
