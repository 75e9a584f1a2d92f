/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"
#include "cli/cli.h"
#include "cli/help.h"

static int run(struct cli *cli)
{
    const char *shell = cli_operand(cli, 0);
    int status = shell ? complete_print(shell) : -1;
    struct vial_error err = { 0 };

    if (status >= 0)
        return status;
    (void)(shell ? fail(&err, VIAL_E_USAGE, "unknown shell '%s'", shell)
                 : fail(&err, VIAL_E_USAGE, "shell is missing"));
    (void)fail_remedy(&err, "name one of bash, zsh, fish");
    return cli_fail(cli, &err);
}

extern const struct command command_completion;
const struct command command_completion = {
    .name = "completion",
    .operands = "bash|zsh|fish",
    .words = "bash|zsh|fish",
    .summary = "print a completion script for a shell",
    .examples = "source <(vial completion bash)\n"
                "vial completion zsh > ~/.zfunc/_vial\n"
                "vial completion fish > ~/.config/fish/completions/vial.fish",
    .max_operands = 1,
    .run = run,
};
