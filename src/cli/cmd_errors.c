/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/print.h"

#define CODES_MAX 256

/* "cap" and "vial-cap" mean VIAL-CAP. */
static bool is_meant(const char *word, const char *code)
{
    return strcasecmp(word, code) == 0 || strcasecmp(word, code + strlen("VIAL-")) == 0;
}

static int refuse(const struct cli *cli, const char *word)
{
    const char *known[CODES_MAX + 1] = { 0 };
    struct vial_error err = { 0 };
    const char *near;

    for (unsigned i = 0; i < CODES_MAX && (known[i] = vial_error_code(i, NULL)); i++)
        ;
    near = text_suggest(word, known);
    (void)fail(&err, VIAL_E_VALUE, "there is no error code '%s'", word);
    if (near)
        (void)fail_remedy(&err, "did you mean '%s'?", near);
    else
        (void)fail_remedy(&err, "'vial errors' lists them");
    return cli_fail(cli, &err);
}

static int run(struct cli *cli)
{
    const char *word = cli_operand(cli, 0);
    bool json = cli_flag(cli, "json") != NULL;
    json_t *list = json_array();
    struct table t = { .columns = 2 };
    const char *meaning = NULL;
    const char *code = NULL;
    bool found = false;

    for (unsigned i = 0; (code = vial_error_code(i, &meaning)); i++) {
        if (word && !is_meant(word, code))
            continue;
        found = true;
        table_add(&t, code);
        table_add(&t, meaning);
        (void)json_array_append_new(
            list, json_pack("{ss ss}", "code", code, "meaning", meaning));
    }
    if (found && json) {
        strv_done(&t.cells);
        return print_json(list);
    }
    json_decref(list);
    return found ? table_print(&t) : refuse(cli, word);
}

static const struct flag flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_errors;
const struct command command_errors = {
    .name = "errors",
    .operands = "[CODE]",
    .summary = "list the error codes and what they mean",
    .examples = "vial errors\n"
                "vial errors VIAL-CAP",
    .flags = flags,
    .max_operands = 1,
    .run = run,
};
