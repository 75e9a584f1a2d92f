/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/inside.h"
#include "base/fail.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/print.h"

static const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static int list(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    struct table t = { .columns = 2 };
    auto_json json_t *caches = NULL;

    (void)engine;
    if (inside_caches(&caches, err) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&caches));
    table_add(&t, "CACHE");
    table_add(&t, "CREATED");
    for (size_t i = 0; i < json_array_size(caches); i++) {
        table_add(&t, text_at(json_array_get(caches, i), "name"));
        table_add(&t, text_at(json_array_get(caches, i), "created"));
    }
    return table_print(&t);
}

static int prune(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    auto_str struct str out = { 0 };
    unsigned removed = 0;

    if (vial_cache_prune(engine, &removed, err) < 0)
        return -1;
    str_printf(&out, cli_flag(cli, "json") ? "{\"removed\":%u}\n" : "%u removed\n",
               removed);
    return print_text(&out);
}

static int run(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    const char *what = cli_operand(cli, 0);
    struct vial_error err = { 0 };
    int status = -1;

    if (what && (strcmp(what, "list") == 0 || strcmp(what, "prune") == 0)) {
        if (cli_engine(cli, &engine, &err) == 0)
            status =
                what[0] == 'l' ? list(cli, engine, &err) : prune(cli, engine, &err);
        return status < 0 ? cli_fail(cli, &err) : status;
    }
    if (what)
        (void)fail(&err, VIAL_E_USAGE, "unknown argument '%s'", what);
    else
        (void)fail(&err, VIAL_E_USAGE, "what to do is missing");
    (void)fail_remedy(&err, "usage: vial cache list | prune");
    return cli_fail(cli, &err);
}

static const struct flag flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_cache;
const struct command command_cache = {
    .name = "cache",
    .operands = "list|prune",
    .words = "list|prune",
    .summary = "list or remove the volumes that runs share",
    .text =
        "For the driver docker. A run with --cache NAME finds what earlier ones left\n"
        "in the volume of that name. prune removes those that nothing uses now.",
    .examples = "vial run --driver docker --cache pip python @job.py\n"
                "vial cache list",
    .flags = flags,
    .max_operands = 1,
    .run = run,
};
