/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"
#include "base/fail.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "settings/schema.h"

static int run(struct cli *cli)
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

static const struct flag flags[] = {
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
    .flags = flags,
    .max_operands = 1,
    .run = run,
};
