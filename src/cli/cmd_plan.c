/* SPDX-License-Identifier: Apache-2.0 */
#include "api/inside.h"
#include "base/auto.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "cli/request_args.h"

static int run(struct cli *cli)
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

static const struct flag flags[] = {
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
    .flags = flags,
    .takes_fields = true,
    .without = request_args_without,
    .program_at = 2,
    .run = run,
};
