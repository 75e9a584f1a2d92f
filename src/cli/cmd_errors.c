/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/print.h"

static int print_list(void)
{
    json_t *list = json_array();
    const char *meaning = NULL;
    const char *code = NULL;

    for (unsigned i = 0; list && (code = vial_error_code(i, &meaning)); i++)
        (void)json_array_append_new(
            list, json_pack("{ss ss}", "code", code, "meaning", meaning));
    return print_json(list);
}

static int run(struct cli *cli)
{
    struct table t = { .columns = 2 };
    const char *meaning = NULL;
    const char *code = NULL;

    if (cli_flag(cli, "json"))
        return print_list();
    for (unsigned i = 0; (code = vial_error_code(i, &meaning)); i++) {
        table_add(&t, code);
        table_add(&t, meaning);
    }
    return table_print(&t);
}

static const struct flag flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_errors;
const struct command command_errors = {
    .name = "errors",
    .summary = "list the error codes and what they mean",
    .flags = flags,
    .run = run,
};
