/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_REMOTE_H
#define VIAL_CLI_REMOTE_H

/* A run by the daemon instead of by this process, with the same result. */

#include <jansson.h>

#include "cli/cli.h"
#include "cli/daemon.h"

/* As vial_run, but -1 also when there is no daemon, or it refused. */
int remote_run(const struct cli *cli, const struct vial_request *req,
               const struct vial_watch *watch, struct vial_result **out,
               struct vial_error *err);

/* The same by a daemon that was found already. BATCH, or NULL, is what the daemon's
 * page calls the runs that belong together: letters, digits, '.', '_' and '-'. */
int remote_run_at(const struct daemon *d, const char *batch,
                  const struct vial_request *req, const struct vial_watch *watch,
                  struct vial_result **out, struct vial_error *err);

/* An error from its JSON; null gives none. */
void remote_error(struct vial_error *out, json_t *json);

#endif
