/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/print.h"

static int run(struct cli *cli)
{
    auto_str struct str line = { 0 };

    if (cli_flag(cli, "json"))
        return print_json(json_pack("{ss}", "version", vial_version()));
    str_printf(&line, "vial %s\n", vial_version());
    return print_text(&line);
}

static const struct flag flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_version;
const struct command command_version = {
    .name = "version",
    .summary = "show the version",
    .flags = flags,
    .run = run,
};
