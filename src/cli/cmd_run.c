/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "cli/request_args.h"
#include "cli/watch_run.h"

static int run_run(struct cli *cli)
{
    auto_ask struct vial_request *req = NULL;
    struct vial_error err = { 0 };

    if (request_args_code(cli, &req, &err) < 0)
        return cli_deny(cli, &err);
    return watch_run(cli, req, request_args_stdin(cli));
}

static const struct flag run_flags[] = {
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
        "CODE is the program itself; '-', or no CODE where something is piped, reads it\n"
        "from standard input, '@FILE' from a file. Flags stand before CODE; what follows\n"
        "CODE goes to the program. Standard\n"
        "input is piped to the program unless it is a terminal or --stdin is given.\n"
        "What the program prints goes to stdout and stderr as it comes. vial itself is\n"
        "silent on success, and talks on stderr only. Python is that of /usr with its\n"
        "packages, unless a virtual environment is active or named by --venv.",
    .examples = "vial run python 'print(2+2)'\n"
                "vial run --timeout 5 --memory 256m bash 'echo hi'\n"
                "vial run --venv .venv python 'import requests'\n"
                "vial run --in data.csv --out plot.png python @job.py\n"
                "echo 'print(6*7)' | vial run python\n"
                "vial run --json python 'print(1)'",
    .flags = run_flags,
    .shows_status = true,
    .takes_fields = true,
    .without = request_args_without,
    .program_at = 2,
    .run = run_run,
};

/* No program's name has one of these in it: "pwd;ls" is a line for the shell. */
#define SHELL_MARKS " \t\n;&|<>()$`\"'\\*?"

static int run_exec(struct cli *cli)
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

static const struct flag exec_flags[] = {
    WATCH_FLAG_ROWS,
    REQUEST_FLAG_ROWS,
    { 0 },
};

extern const struct command command_exec;
const struct command command_exec = {
    .name = "exec",
    .operands = "[--] COMMAND [ARG…] | --image NAME [ARG…]",
    .summary = "run a command with the current repository at /workspace",
    .text =
        "The root of the git repository around the current directory (or the current\n"
        "directory, outside of one) is mounted at /workspace, writable unless\n"
        "--workspace-mode says otherwise, and the command starts at the same place in it.\n"
        "A repository above that belongs to somebody else is refused unless you trust it\n"
        "('vial trust DIR'). A single COMMAND with spaces in it, or anything else that\n"
        "only means something to a shell, is given to 'sh -c'. With --image, the image's\n"
        "ENTRYPOINT comes before COMMAND, and its CMD stands for one that is not given,\n"
        "as container engines have it; --entrypoint none leaves both out.",
    .examples = "vial exec -- make test\n"
                "vial exec --timeout 2m --network none -- python3 -m unittest\n"
                "vial exec --workspace-mode overlay -- make clean all\n"
                "vial exec 'ls | wc -l'\n"
                "vial exec 'pwd;ls'",
    .flags = exec_flags,
    .shows_status = true,
    .takes_fields = true,
    .without = request_args_without,
    .program_at = 1,
    .run = run_exec,
};

static int run_plan(struct cli *cli)
{
    auto_ask struct vial_request *req = NULL;
    auto_engine struct vial_engine *engine = NULL;
    json_t *plan = NULL;
    struct vial_error err = { 0 };

    if (request_args_code(cli, &req, &err) < 0 || cli_engine(cli, &engine, &err) < 0 ||
        inside_plan(engine, req, &plan, &err) < 0)
        return cli_deny(cli, &err);
    return print_json(plan);
}

static const struct flag plan_flags[] = {
    { "json", NULL, "Print a refusal as JSON too; a plan always is." },
    REQUEST_FLAG_ROWS,
    { 0 },
};

extern const struct command command_plan;
const struct command command_plan = {
    .name = "plan",
    .operands = "LANG CODE [ARG…]",
    .summary = "show what a run would do, and do nothing",
    .text =
        "Takes what 'vial run' takes, resolves it with the settings and the policy, and\n"
        "prints the plan that a driver would get, as JSON.",
    .examples = "vial plan --memory 256m python 'print(1)'\n"
                "vial plan --request request.json",
    .flags = plan_flags,
    .takes_fields = true,
    .without = request_args_without,
    .program_at = 2,
    .run = run_plan,
};
