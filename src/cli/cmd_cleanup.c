/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/print.h"

static int run(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_str struct str out = { 0 };
    struct vial_error err = { 0 };
    unsigned removed = 0;

    if (cli_engine(cli, &engine, &err) < 0 || vial_cleanup(engine, &removed, &err) < 0)
        return cli_fail(cli, &err);
    if (cli_flag(cli, "json"))
        return print_json(json_pack("{s:i}", "removed", (int)removed));
    str_printf(&out, "%u container%s removed\n", removed, removed == 1 ? "" : "s");
    return print_text(&out);
}

static const struct flag flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_cleanup;
const struct command command_cleanup = {
    .name = "cleanup",
    .summary = "remove what callers that have died left behind",
    .text =
        "Containers and cgroups whose owner lives no more. What belongs to a living\n"
        "caller, or to one that cannot be seen from here, is left alone.",
    .examples = "vial cleanup\n"
                "vial cleanup --json",
    .flags = flags,
    .run = run,
};
