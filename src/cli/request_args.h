/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_CLI_REQUEST_ARGS_H
#define VIAL_CLI_REQUEST_ARGS_H

/* From a command line to a request. */

#include "cli/cli.h"

/* The flags that `run`, `exec` and `plan` share. */
#define REQUEST_FLAG_ROWS                                                              \
    { "request", "FILE", "Read the whole request as JSON from FILE, or '-'." },        \
    {                                                                                  \
        "out", "NAME[:HOSTPATH]",                                                      \
            "Bring a file back and write it to HOSTPATH, or to the current directory." \
    }

/* Fields that are operands there, or have a flag of their own. */
extern const char *const request_args_without[];

/* A request with the flags in it: begun by --request, else empty. */
int request_args_flags(const struct cli *cli, struct vial_request **out,
                       struct vial_error *err);

/* A whole request from --request, or from "LANG CODE [ARG…]". */
int request_args_code(const struct cli *cli, struct vial_request **out,
                      struct vial_error *err);

/* A request for COMMAND (NULL-terminated) with the caller's repository, or the
 * current directory, at /workspace. */
int request_args_command(const struct cli *cli, char *const *command,
                         struct vial_request **out, struct vial_error *err);

/* The descriptor to pipe to the program: ours, unless it is a terminal or has
 * been used for something else. */
int request_args_stdin(const struct cli *cli);

#endif
