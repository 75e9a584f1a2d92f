/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_PULL_H
#define VIAL_CLI_PULL_H

/* Pulling an image while telling how it goes on stderr: on a terminal by one line
 * that changes, elsewhere by lines; with --json by one object for each event; not
 * at all with --quiet. */

#include <stdint.h>

#include "cli/cli.h"

#define PULL_MS 300000

struct pull {
    const char *name;
    int64_t timeout_ms;
    int cancel_fd; /* readable: give up; -1: none */
};

/* The telling alone, for a pull that somebody else makes: a vial_pull_progress and its
 * context. */
struct pull_show {
    bool as_json, on_terminal, quiet;
    char last[160];
};
struct pull_show pull_show_begin(const struct cli *cli);
int pull_show(void *context, const char *layer, const char *status,
              unsigned long long current, unsigned long long total);
void pull_show_end(const struct pull_show *s);

/* *JSON as vial_image_pull gives it. */
int pull_image(const struct cli *cli, struct vial_engine *engine,
               const struct pull *pull, char **json, struct vial_error *err);

#endif
