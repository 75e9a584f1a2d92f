/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_BATCH_PLACES_H
#define VIAL_CLI_BATCH_PLACES_H

/*
 * The daemons that share the rows of a batch, each in its turn. One that does not
 * answer is passed over for a while; the row is the caller's to try again. One that
 * turns a row away, as too much is under way there, is asked again when others have
 * been asked: the row waits for as long as that takes.
 */

#include <stdatomic.h>

#include "cli/cli.h"
#include "cli/remote.h"

struct batch_places {
    struct batch_place *list;
    size_t count;
    atomic_size_t turn;
    char *token;
    atomic_size_t waiting; /* rows that were turned away */
    char name[65];         /* what the daemons call this batch */
};

/* Those that --daemon and --socket name, or the usual one. One that answers, and
 * refuses us, ends it here. Whatever this returns, batch_places_done releases P. */
int batch_places_find(struct batch_places *p, const struct cli *cli,
                      struct vial_error *err);
void batch_places_done(struct batch_places *p);

/* What a person calls the one of that number. */
const char *batch_places_name(const struct batch_places *p, size_t which);

/* What the first that answers has to say there; to BODY, or NULL. -1: none did. */
int batch_places_ask(const struct batch_places *p, const char *target, const char *body,
                     int cancel_fd, json_t **out);
/* REQ's plan there. */
int batch_places_plan(const struct batch_places *p, const struct vial_request *req,
                      int cancel_fd, json_t **out);

/* As vial_run, at the next of them. */
int batch_places_run(struct batch_places *p, const struct vial_request *req,
                     const struct vial_watch *watch, struct vial_result **out,
                     struct vial_error *err);
/* As many of them as come, all by one. */
void batch_places_run_many(struct batch_places *p, const struct grade_many *many);

#endif
