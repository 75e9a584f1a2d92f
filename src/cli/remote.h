/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_REMOTE_H
#define VIAL_CLI_REMOTE_H

/* A run by the daemon instead of by this process, with the same result. */

#include <jansson.h>

#include "batch/grade.h"
#include "cli/cli.h"
#include "cli/daemon.h"

/* As vial_run, but -1 also when there is no daemon, or it refused. */
int remote_run(const struct cli *cli, const struct vial_request *req,
               const struct vial_watch *watch, struct vial_result **out,
               struct vial_error *err);

/* Where a run goes, by a daemon that was found already. */
struct remote_at {
    const struct daemon *daemon;
    const char *batch; /* what its page calls the runs that belong together: letters,
                          digits, '.', '_' and '-'; or NULL */
    struct daemon_said *said; /* how it answered; or NULL */
};

/* The same there. */
int remote_run_at(const struct remote_at *at, const struct vial_request *req,
                  const struct vial_watch *watch, struct vial_result **out,
                  struct vial_error *err);

/* One program on many inputs there, compiled once. -1 also when not all was wanted. */
int remote_run_many(const struct remote_at *at, const struct grade_many *many,
                    struct vial_error *err);

/* What becomes of a run that a daemon refused because of ERR; NULL: no memory. */
struct vial_result *remote_denied(const struct vial_error *err);

/* An error from its JSON; null gives none. */
void remote_error(struct vial_error *out, json_t *json);

#endif
