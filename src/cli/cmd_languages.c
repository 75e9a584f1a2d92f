/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/print.h"

static int print_table(const char *text)
{
    struct table t = { .columns = 3 };
    auto_json json_t *list = json_loads(text, 0, NULL);

    table_add(&t, "LANGUAGE");
    table_add(&t, "USABLE");
    table_add(&t, "VERSION");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *language = json_array_get(list, i);
        bool usable = json_is_true(json_object_get(language, "usable"));

        table_add(&t, json_string_value(json_object_get(language, "name")));
        table_add(&t, usable ? "yes" : "no");
        table_add(&t, json_string_value(json_object_get(language, "version")));
    }
    return table_print(&t);
}

static int run(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_free char *text = NULL;
    struct vial_error err = { 0 };

    if (cli_engine(cli, &engine, &err) < 0 || vial_languages(engine, &text, &err) < 0)
        return cli_fail(cli, &err);
    return cli_flag(cli, "json") ? print_line(text) : print_table(text);
}

static const struct flag flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_languages;
const struct command command_languages = {
    .name = "languages",
    .summary = "list the languages, and which are usable here",
    .flags = flags,
    .run = run,
};
