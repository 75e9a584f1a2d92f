/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_BATCH_PLACES_H
#define VIAL_CLI_BATCH_PLACES_H

/*
 * The daemons that share the rows of a batch, each in its turn. One that does not answer
 * is passed over for a while; the row is the caller's to try again.
 */

#include <stdatomic.h>

#include "cli/cli.h"
#include "cli/remote.h"

struct batch_places {
    struct batch_place *list;
    size_t count;
    atomic_size_t turn;
    char *token;
    char name[65]; /* what the daemons call this batch */
};

/* Those that --daemon and --socket name, or the usual one. One that answers, and refuses
 * us, ends it here. Whatever this returns, batch_places_done releases P. */
int batch_places_find(struct batch_places *p, const struct cli *cli,
                      struct vial_error *err);
void batch_places_done(struct batch_places *p);

/* As vial_run, at the next of them. */
int batch_places_run(struct batch_places *p, const struct vial_request *req,
                     const struct vial_watch *watch, struct vial_result **out,
                     struct vial_error *err);

#endif
