/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_PULL_PROGRESS_H
#define VIAL_CLI_PULL_PROGRESS_H

/* How a pull goes is told on stderr: on a terminal by one line
 * that changes, elsewhere by lines; with --json by one object for each event; not
 * at all with --quiet. */

#include "cli/cli.h"

/* A vial_pull_progress and its context. */
struct pull_show {
    bool as_json, on_terminal, quiet;
    char last[160];
};
struct pull_show pull_show_begin(const struct cli *cli);
int pull_show(void *context, const char *layer, const char *status,
              unsigned long long current, unsigned long long total);
/* Before anything else is said. */
void pull_show_end(const struct pull_show *s);

#endif
