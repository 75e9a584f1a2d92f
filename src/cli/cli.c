/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/print.h"

#define COMMAND(name) extern const struct command command_##name;
#include "cli/commands.def"
#undef COMMAND

const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "cli/commands.def"
#undef COMMAND
    NULL,
};

static const struct flag vial_flags[] = {
    { "version", NULL, "Show the version." },
    { 0 },
};

const struct command command_vial = {
    .name = "vial",
    .operands = "COMMAND …",
    .summary = "a sealed, single-use vessel for code you don't trust",
    .flags = vial_flags,
    .program_at = 1,
};

const struct command *command_find(const char *name)
{
    for (const struct command *const *c = commands; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

const char *cli_flag(const struct cli *cli, const char *name)
{
    const char *value = options_get(&cli->options, name);

    return value ? value : options_get(&cli->global, name);
}

const char *cli_operand(const struct cli *cli, size_t index)
{
    return index < cli->options.operand_count ? cli->options.operands[index] : NULL;
}

/* A preset may have a variable of its own for the container engine's address. The
 * driver asks the environment for it; we have one thread yet. */
static int point_at_engine(struct vial_engine *engine, struct vial_error *err)
{
    const char *address = inside_settings(engine)->engine;

    if (vial_preset_name(engine) && address &&
        setenv("DOCKER_HOST", address, 1) < 0) /* NOLINT */
        return fail_sys(err, "set DOCKER_HOST");
    return 0;
}

int cli_engine(const struct cli *cli, struct vial_engine **out, struct vial_error *err)
{
    struct vial_engine_options options = {
        .preset = cli_flag(cli, "preset"),
        .config = cli_flag(cli, "config"),
        .journal = true,
    };

    if (vial_engine_open(&options, out, err) < 0)
        return -1;
    return point_at_engine(*out, err);
}

static int say_failure(const struct cli *cli, const struct vial_error *err,
                       const char *preset_code)
{
    if (!cli_flag(cli, "json")) {
        say_error_as(err, "error", preset_code ? preset_code : "");
        return STATUS_VIAL;
    }
    (void)print_json(json_pack("{s{ss ss ss ss} ss*}", "error", "code", err->code,
                               "message", err->message, "cause", err->cause, "remedy",
                               err->remedy, "preset_code", preset_code));
    return STATUS_VIAL;
}

int cli_fail(const struct cli *cli, const struct vial_error *err)
{
    return say_failure(cli, err, NULL);
}

int cli_fail_coded(const struct cli *cli, const struct vial_engine *engine,
                   const struct vial_error *err)
{
    return say_failure(cli, err, engine ? vial_preset_code(engine, err->code) : NULL);
}

int cli_deny(const struct cli *cli, const struct vial_error *err)
{
    struct vial_result result = {
        .verdict = VIAL_DENIED,
        .exit_code = -1,
        .stage = "run",
        .level = "none",
        .limits_by = "none",
        .error = *err,
    };
    auto_free char *json = NULL;

    if (!cli_flag(cli, "json"))
        return cli_fail(cli, err);
    sys_make_id('r', result.id);
    json = vial_result_json(&result, false);
    (void)print_line(json);
    return STATUS_VIAL;
}

/* The preset's own words for a command of ours take its place. Returns the number of
 * arguments, or -1; CLI owns the new list. */
static int take_alias(struct cli *cli, const struct preset *preset)
{
    char **words = cli->global.operands;
    const char *becomes = NULL;
    size_t used = preset_command(preset, words, &becomes);

    if (used == 0)
        return 0;
    for (const char *at = becomes; *at;) {
        size_t len = strcspn(at, " ");

        strv_printf(&cli->alias, "%.*s", (int)len, at);
        at += len + strspn(at + len, " ");
    }
    for (words += used; *words; words++)
        strv_push(&cli->alias, *words);
    return strv_ok(&cli->alias) ? (int)cli->alias.count : -1;
}

static int find_preset(const struct cli *cli, struct preset **out,
                       struct vial_error *err)
{
    const struct settings_sources from = {
        .preset = options_get(&cli->global, "preset"),
        .environ_ = environ,
    };

    return settings_find_preset(&from, out, err);
}

static int refuse_command(const char *name)
{
    struct vial_error err = { 0 };
    auto_strv struct strv names = { 0 };
    const char *near = NULL;

    for (const struct command *const *c = commands; *c; c++)
        strv_push(&names, (*c)->name);
    if (strv_ok(&names))
        near = text_suggest(name, (const char *const *)names.items);
    (void)fail(&err, VIAL_E_USAGE, "unknown command '%s'", name);
    (void)(near ? fail_remedy(&err, "did you mean '%s'?", near)
                : fail_remedy(&err, "see 'vial help'"));
    say_error(&err);
    return STATUS_VIAL;
}

/* The flags could not be read, so --json may still stand among what is left. */
static int refuse_flags(const struct cli *cli, char **args,
                        const struct vial_error *err)
{
    struct cli asked = *cli;
    struct given json = { .flag = &(const struct flag)FLAG_ROW_JSON, .value = "" };

    for (; *args && strcmp(*args, "--") != 0; args++)
        if (strcmp(*args, "--json") == 0)
            asked.options = (struct options){ .given = &json, .given_count = 1 };
    return cli->command->takes_fields ? cli_deny(&asked, err) : cli_fail(&asked, err);
}

static int refuse_operand(const struct cli *cli)
{
    struct vial_error err = { 0 };

    (void)fail(&err, VIAL_E_USAGE, "unexpected argument '%s'",
               cli->options.operands[cli->command->max_operands]);
    (void)fail_remedy(&err, "see 'vial %s --help'", cli->command->name);
    return cli_fail(cli, &err);
}

static int run_command(struct cli *cli, char **args, int count)
{
    struct vial_error err = { 0 };

    if (options_parse(cli->command, count, args, &cli->options, &err) < 0)
        return refuse_flags(cli, args, &err);
    if (cli_flag(cli, "help"))
        return help_print(cli->command);
    if (!cli->command->program_at &&
        cli->options.operand_count > cli->command->max_operands)
        return refuse_operand(cli);
    return cli->command->run(cli);
}

/* "sandbox" alone, or with --help, where the preset has "sandbox exec". */
static int help_on_group(const struct cli *cli, const struct preset *preset)
{
    char **words = cli->global.operands;
    bool alone = !words[1] || strcmp(words[1], "--help") == 0 ||
                 strcmp(words[1], "-h") == 0 || strcmp(words[1], "help") == 0;

    if (!preset || !alone)
        return -1;
    return help_group(preset_name(preset), preset_get(preset, "commands"), words[0]);
}

/* "sandbox run", where the preset has "sandbox exec"; -1: it has no "sandbox …". */
static int refuse_in_group(const struct cli *cli, const struct preset *preset)
{
    char **words = cli->global.operands;
    auto_str struct str names = { 0 };
    struct vial_error err = { 0 };

    if (preset && words[1])
        help_group_names(preset_get(preset, "commands"), words[0], &names);
    if (names.len == 0 || !str_ok(&names))
        return -1;
    (void)fail(&err, VIAL_E_USAGE, "unknown command '%s %s'", words[0], words[1]);
    (void)fail_remedy(&err, "preset %s has %s", preset_name(preset), names.data);
    return cli_fail(cli, &err);
}

/* A word that is no command of ours may be one of the preset's. */
static int run_alias(struct cli *cli)
{
    struct preset *preset = NULL;
    struct vial_error err = { 0 };
    int status = 0;
    int count = 0;

    if (find_preset(cli, &preset, &err) < 0)
        return cli_fail(cli, &err);
    count = take_alias(cli, preset);
    status = count == 0 ? help_on_group(cli, preset) : -1;
    if (count == 0 && status < 0)
        status = refuse_in_group(cli, preset);
    preset_free(preset);
    if (status >= 0)
        return status;
    if (count > 0)
        cli->command = command_find(cli->alias.items[0]);
    if (count <= 0 || !cli->command)
        return refuse_command(cli->global.operands[0]);
    return run_command(cli, cli->alias.items + 1, count - 1);
}

/* With a preset, its own words come after ours. */
static int help_all(const struct cli *cli)
{
    struct preset *preset = NULL;
    struct vial_error err = { 0 };
    int status = STATUS_OK;

    if (find_preset(cli, &preset, &err) < 0)
        return cli_fail(cli, &err);
    status = help_print(&command_vial);
    if (status == STATUS_OK && preset)
        status = help_preset(preset_name(preset), preset_get(preset, "commands"));
    preset_free(preset);
    return status;
}

static int choose_command(struct cli *cli)
{
    size_t count = cli->global.operand_count;

    if (options_get(&cli->global, "version"))
        cli->command = command_find("version");
    else if (options_get(&cli->global, "help"))
        return help_all(cli);
    else if (count == 0)
        return help_hint();
    else
        cli->command = command_find(cli->global.operands[0]);
    if (!cli->command)
        return run_alias(cli);
    return run_command(cli, cli->global.operands + (count ? 1 : 0),
                       (int)count - (count ? 1 : 0));
}

int cli_main(int argc, char **argv)
{
    struct cli cli = { .command = &command_vial };
    struct vial_error err = { 0 };
    int status = STATUS_VIAL;

    if (options_parse(&command_vial, argc ? argc - 1 : 0, argv + (argc ? 1 : 0),
                      &cli.global, &err) < 0)
        say_error(&err);
    else
        status = choose_command(&cli);
    options_done(&cli.options);
    options_done(&cli.global);
    strv_done(&cli.alias);
    return status;
}
