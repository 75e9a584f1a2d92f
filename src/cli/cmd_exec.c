/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/cli.h"
#include "cli/request_args.h"
#include "cli/watch_run.h"

/* No program's name has one of these in it: "pwd;ls" is a line for the shell. */
#define SHELL_MARKS " \t\n;&|<>()$`\"'\\*?"

static int run(struct cli *cli)
{
    auto_ask struct vial_request *req = NULL;
    struct vial_error err = { 0 };
    char **operands = cli->options.operands;
    char shell[] = "sh";
    char dash_c[] = "-c";
    char *line[] = { shell, dash_c, operands[0], NULL };
    bool one_line =
        cli->options.operand_count == 1 && strpbrk(operands[0], SHELL_MARKS);

    if (request_args_command(cli, one_line ? line : operands, &req, &err) < 0)
        return cli_deny(cli, &err);
    return watch_run(cli, req, request_args_stdin(cli));
}

static const struct flag flags[] = {
    WATCH_FLAG_ROWS,
    REQUEST_FLAG_ROWS,
    { 0 },
};

extern const struct command command_exec;
const struct command command_exec = {
    .name = "exec",
    .operands = "[--] COMMAND [ARG…]",
    .summary = "run a command with the current repository at /workspace",
    .text =
        "The root of the git repository around the current directory (or the current\n"
        "directory, outside of one) is mounted at /workspace, writable unless\n"
        "--workspace-mode says otherwise, and the command starts at the same place in it.\n"
        "A repository above that belongs to somebody else is refused unless you trust it\n"
        "('vial trust DIR'). A single COMMAND with spaces in it, or anything else that\n"
        "only means something to a shell, is given to 'sh -c'.",
    .examples = "vial exec -- make test\n"
                "vial exec --timeout 2m --network none -- python3 -m unittest\n"
                "vial exec --workspace-mode overlay -- make clean all\n"
                "vial exec 'ls | wc -l'\n"
                "vial exec 'pwd;ls'",
    .flags = flags,
    .shows_status = true,
    .takes_fields = true,
    .without = request_args_without,
    .program_at = 1,
    .run = run,
};
