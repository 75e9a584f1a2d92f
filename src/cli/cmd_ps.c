/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/print.h"

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "-";
}

static void add_row(struct table *t, json_t *vessel)
{
    json_t *pid = json_object_get(vessel, "pid");
    char number[24];

    (void)snprintf(number, sizeof(number), "pid %lld",
                   (long long)json_integer_value(pid));
    table_add(t, json_object_get(vessel, "name") || !pid ? text_of(vessel, "name")
                                                         : number);
    table_add(t, text_of(vessel, "driver"));
    table_add(t, json_is_true(json_object_get(vessel, "orphan"))
                     ? "orphan"
                     : text_of(vessel, "state"));
    table_add(t, text_of(vessel, "session"));
    table_add(t, text_of(vessel, "task"));
}

static int print_table(const char *text)
{
    static const char *const heads[] = { "VESSEL", "DRIVER", "STATE", "SESSION",
                                         "TASK" };
    struct table t = { .columns = 5 };
    auto_json json_t *list = json_loads(text, 0, NULL);

    for (size_t i = 0; i < t.columns; i++)
        table_add(&t, heads[i]);
    for (size_t i = 0; i < json_array_size(list); i++)
        add_row(&t, json_array_get(list, i));
    return table_print(&t);
}

static int run(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_free char *text = NULL;
    const char *prefix = cli_flag(cli, "prefix");
    struct vial_error err = { 0 };

    if (cli_engine(cli, &engine, &err) < 0 ||
        (prefix ? vial_vessels_of(engine, prefix, &text, &err)
                : vial_vessels(engine, &text, &err)) < 0)
        return cli_fail(cli, &err);
    return cli_flag(cli, "json") ? print_line(text) : print_table(text);
}

static const struct flag flags[] = {
    { "prefix", "TEXT", "Only those whose name begins so (see the setting 'prefix')." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_ps;
const struct command command_ps = {
    .name = "ps",
    .summary = "list the vessels that exist on this host now",
    .text = "Of every driver. An orphan is one whose caller has died; 'vial cleanup'\n"
            "removes it.",
    .examples = "vial ps\n"
                "vial ps --prefix acode\n"
                "vial ps --json",
    .flags = flags,
    .run = run,
};
