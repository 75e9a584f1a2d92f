/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"
#include "cli/cli.h"
#include "cli/help.h"

static int run(struct cli *cli)
{
    const char *name = cli_operand(cli, 0);
    const struct command *c = name ? command_find(name) : &command_vial;
    struct vial_error err = { 0 };

    if (cli_flag(cli, "man"))
        return help_man();
    if (c)
        return help_print(c);
    (void)fail(&err, VIAL_E_USAGE, "unknown command '%s'", name);
    (void)fail_remedy(&err, "see 'vial help'");
    return cli_fail(cli, &err);
}

static const struct flag flags[] = {
    { "man", NULL, "Print the manual page, as roff." },
    { 0 },
};

extern const struct command command_help;
const struct command command_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .summary = "explain vial, or one of its commands",
    .flags = flags,
    .max_operands = 1,
    .run = run,
};
