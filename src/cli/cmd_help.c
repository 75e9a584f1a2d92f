/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/print.h"
#include "settings/schema.h"

static int run_help(struct cli *cli)
{
    const char *name = cli_operand(cli, 0);
    const struct command *c = name ? command_find(name) : &command_vial;
    struct vial_error err = { 0 };

    if (c)
        return cli_flag(cli, "man") ? help_man(c) : help_print(c);
    (void)fail(&err, VIAL_E_USAGE, "unknown command '%s'", name);
    (void)fail_remedy(&err, "see 'vial help'");
    return cli_fail(cli, &err);
}

static const struct flag help_flags[] = {
    { "man", NULL, "Print the manual page of vial, or of the command, as roff." },
    { 0 },
};

extern const struct command command_help;
const struct command command_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .summary = "explain vial, or one of its commands",
    .flags = help_flags,
    .max_operands = 1,
    .run = run_help,
};

static int run_version(struct cli *cli)
{
    auto_str struct str line = { 0 };

    if (cli_flag(cli, "json"))
        return print_json(json_pack("{ss}", "version", vial_version()));
    str_printf(&line, "vial %s\n", vial_version());
    return print_text(&line);
}

static const struct flag version_flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_version;
const struct command command_version = {
    .name = "version",
    .summary = "show the version",
    .flags = version_flags,
    .run = run_version,
};

/* For the scripts: every name of a language, one a line. */
static int print_languages(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_str struct str out = { 0 };
    const struct language_table *table;
    struct vial_error err = { 0 };

    if (cli_engine(cli, &engine, &err) < 0)
        return cli_fail(cli, &err);
    table = &inside_settings(engine)->languages;
    for (size_t i = 0; i < table->count; i++) {
        const struct language *l = &table->items[i];

        if (l->hidden)
            continue;
        str_printf(&out, "%s\n", l->name);
        for (size_t n = 0; n < l->aliases.count; n++)
            str_printf(&out, "%s\n", l->aliases.items[n]);
    }
    return print_text(&out);
}

static int run_completion(struct cli *cli)
{
    const char *shell = cli_operand(cli, 0);
    struct vial_error err = { 0 };
    int status;

    if (shell && strcmp(shell, "languages") == 0)
        return print_languages(cli);
    status = shell ? complete_print(shell) : -1;
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
    .run = run_completion,
};

static int run_schema(struct cli *cli)
{
    const char *kind = cli_operand(cli, 0);
    json_t *schema = NULL;
    struct vial_error err = { 0 };

    if (!kind) {
        (void)fail(&err, VIAL_E_USAGE, "which schema is missing");
        (void)fail_remedy(&err, "name one of request, result, settings");
        return cli_fail(cli, &err);
    }
    if (schema_find(kind, &schema, &err) < 0)
        return cli_fail(cli, &err);
    return print_json(schema);
}

static const struct flag schema_flags[] = {
    { "json", NULL, "Print an error as JSON too; a schema always is." },
    { 0 },
};

extern const struct command command_schema;
const struct command command_schema = {
    .name = "schema",
    .operands = "request|result|settings",
    .words = "request|result|settings",
    .summary = "print a JSON schema",
    .examples = "vial schema result",
    .flags = schema_flags,
    .max_operands = 1,
    .run = run_schema,
};
