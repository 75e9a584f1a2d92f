/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/inside.h"
#include "base/fail.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/print.h"

static void add_value(struct table *t, json_t *value)
{
    auto_free char *text = NULL;

    if (json_is_null(value)) {
        table_add(t, "-");
        return;
    }
    if (json_is_string(value)) {
        table_add(t, json_string_value(value));
        return;
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    table_add(t, text);
}

/* A member of OBJECT is { "value": …, "from": … }; or the value alone, and where all of
 * them came from is the object's own "from". */
static void add_rows(struct table *t, const char *prefix, json_t *object)
{
    const char *source = json_string_value(json_object_get(object, "from"));

    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        auto_str struct str name = { 0 };
        json_t *entry = json_object_iter_value(at);
        const char *from = json_string_value(json_object_get(entry, "from"));

        if (strcmp(json_object_iter_key(at), "from") == 0)
            continue;
        str_printf(&name, "%s%s", prefix, json_object_iter_key(at));
        table_add(t, name.data);
        add_value(t, json_is_object(entry) ? json_object_get(entry, "value") : entry);
        table_add(t, from ? from : source ? source : "-");
    }
}

static int show(struct cli *cli, struct vial_engine *engine)
{
    struct table t = { .columns = 3 };
    auto_json json_t *config = settings_json(inside_settings(engine));

    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&config));
    add_rows(&t, "", json_object_get(config, "defaults"));
    add_rows(&t, "policy.", json_object_get(config, "policy"));
    add_rows(&t, "audit.", json_object_get(config, "audit"));
    add_rows(&t, "cleanup.", json_object_get(config, "cleanup"));
    add_rows(&t, "serve.", json_object_get(config, "serve"));
    return table_print(&t);
}

/* A default that the policy forbids would refuse every request. */
static int check(struct cli *cli, struct vial_engine *engine)
{
    auto_ask struct vial_request *req = NULL;
    struct vial_plan *plan = NULL;
    struct vial_error err = { 0 };

    if (vial_request_new(&req, &err) < 0 ||
        vial_request_set(req, "command", "true", &err) < 0)
        return cli_fail(cli, &err);
    if (vial_plan_new(engine, req, &plan, &err) < 0 &&
        strcmp(err.code, fail_code_text(VIAL_E_POLICY)) == 0) {
        (void)fail_in(&err, "the defaults do not fit the policy");
        return cli_fail(cli, &err);
    }
    vial_plan_free(plan);
    return cli_flag(cli, "json") ? print_json(json_pack("{sb}", "ok", 1)) : STATUS_OK;
}

static int refuse(struct cli *cli, const char *what)
{
    struct vial_error err = { 0 };

    if (what)
        (void)fail(&err, VIAL_E_USAGE, "unknown argument '%s'", what);
    else
        (void)fail(&err, VIAL_E_USAGE, "what to do is missing");
    (void)fail_remedy(&err, "usage: vial config show|check [FILE]");
    return cli_fail(cli, &err);
}

static int run(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    const char *what = cli_operand(cli, 0);
    const char *file = cli_operand(cli, 1);
    struct vial_engine_options options = {
        .preset = cli_flag(cli, "preset"),
        .config = file ? file : cli_flag(cli, "config"),
    };
    struct vial_error err = { 0 };
    bool shows = what && strcmp(what, "show") == 0;

    if (!shows && !(what && strcmp(what, "check") == 0))
        return refuse(cli, what);
    if (vial_engine_open(&options, &engine, &err) < 0)
        return cli_fail(cli, &err);
    return shows ? show(cli, engine) : check(cli, engine);
}

static const struct flag flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_config;
const struct command command_config = {
    .name = "config",
    .operands = "show|check [FILE]",
    .words = "show|check",
    .summary = "show the settings and where they come from, or check them",
    .text =
        "Settings, the later ones winning: built-in, preset, /etc/vial/vial.yaml,\n"
        "~/.config/vial/vial.yaml, the project's vial.yaml (see 'vial trust'), VIAL_*\n"
        "variables, flags. Limits of the policy can only be tightened on the way. With\n"
        "FILE, that file is read instead of the ones in /etc and ~. 'check' is silent\n"
        "when all is well.",
    .examples = "vial config show\n"
                "vial config check ./vial.yaml",
    .flags = flags,
    .max_operands = 2,
    .run = run,
};
