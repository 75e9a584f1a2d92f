/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_WATCH_RUN_H
#define VIAL_CLI_WATCH_RUN_H

/* Runs a request, passes its output on, and says how it ended. */

#include "cli/cli.h"

#define WATCH_FLAG_ROWS                                                                      \
    { "json", NULL, "Print the whole result as one JSON object instead." },                  \
        { "raw", NULL,                                                                       \
          "Show output to a terminal untouched; with --json, add both streams as base64." }, \
        { "report", NULL,                                                                    \
          "Say on stderr how the run ended, how long it took and how it "                    \
          "was isolated." },                                                                 \
        { "daemon", NULL, "Have the daemon run it, and its vessels that wait." },            \
        { "socket", "PATH", "The daemon's unix socket, instead of the usual ones." },        \
        { "no-pull", NULL, "Refuse, instead of pulling, an image that is not here." },       \
    {                                                                                        \
        "quiet", NULL, "Say nothing about timeouts and other limits."                        \
    }

/* STDIN_FD is piped to the program; -1: the request's own stdin. Returns the
 * exit status. */
int watch_run(const struct cli *cli, const struct vial_request *req, int stdin_fd);

/* The exit status that RESULT stands for. */
int watch_run_status(const struct vial_result *result);

#endif
