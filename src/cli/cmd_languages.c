/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/print.h"
#include "model/doctor.h"

static int print_table(const struct vial_languages *list)
{
    struct table t = { .columns = 3 };

    table_add(&t, "LANGUAGE");
    table_add(&t, "USABLE");
    table_add(&t, "VERSION");
    for (size_t i = 0; i < list->count; i++) {
        table_add(&t, list->items[i].name);
        table_add(&t, list->items[i].usable ? "yes" : "no");
        table_add(&t, list->items[i].version);
    }
    return table_print(&t);
}

static int run(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_languages struct vial_languages list = { 0 };
    struct vial_error err = { 0 };

    if (cli_engine(cli, &engine, &err) < 0 ||
        vial_language_list(engine, &list, &err) < 0)
        return cli_fail(cli, &err);
    return cli_flag(cli, "json") ? print_compact(languages_json(&list))
                                 : print_table(&list);
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
