/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/request_args.h"
#include "cli/watch_run.h"

static int run(struct cli *cli)
{
    auto_ask struct vial_request *req = NULL;
    struct vial_error err = { 0 };

    if (request_args_code(cli, &req, &err) < 0)
        return cli_deny(cli, &err);
    return watch_run(cli, req, request_args_stdin(cli));
}

static const struct flag flags[] = {
    WATCH_FLAG_ROWS,
    REQUEST_FLAG_ROWS,
    { "warm", NULL, "Let a vessel wait for the code, as in a pool; to try it out." },
    { 0 },
};

extern const struct command command_run;
const struct command command_run = {
    .name = "run",
    .operands = "LANG CODE [ARG…]",
    .summary = "run code in a fresh vessel",
    .text =
        "CODE is the program itself; '-' reads it from standard input, '@FILE' from a\n"
        "file. Flags stand before CODE; what follows CODE goes to the program. Standard\n"
        "input is piped to the program unless it is a terminal or --stdin is given.\n"
        "What the program prints goes to stdout and stderr as it comes. vial itself is\n"
        "silent on success, and talks on stderr only.",
    .examples = "vial run python 'print(2+2)'\n"
                "vial run --timeout 5 --memory 256m bash 'echo hi'\n"
                "vial run --in data.csv --out plot.png python @job.py\n"
                "echo 'print(6*7)' | vial run python -\n"
                "vial run --json python 'print(1)'",
    .flags = flags,
    .shows_status = true,
    .takes_fields = true,
    .without = request_args_without,
    .program_at = 2,
    .run = run,
};
