/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "model/vessel_list.h"

static const char *or_dash(const char *text)
{
    return text ? text : "-";
}

static void add_row(struct table *t, const struct vial_vessel *v)
{
    char number[24];

    (void)snprintf(number, sizeof(number), "pid %d", v->pid);
    table_add(t, v->name || !v->pid ? or_dash(v->name) : number);
    table_add(t, or_dash(v->driver));
    table_add(t, v->orphan ? "orphan" : or_dash(v->state));
    table_add(t, or_dash(v->session));
    table_add(t, or_dash(v->task));
}

static int print_table(const struct vial_vessels *list)
{
    static const char *const heads[] = { "VESSEL", "DRIVER", "STATE", "SESSION",
                                         "TASK" };
    struct table t = { .columns = 5 };

    for (size_t i = 0; i < t.columns; i++)
        table_add(&t, heads[i]);
    for (size_t i = 0; i < list->count; i++)
        add_row(&t, &list->items[i]);
    return table_print(&t);
}

static int run_ps(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_vessels struct vial_vessels list = { 0 };
    struct vial_error err = { 0 };

    if (cli_engine(cli, &engine, &err) < 0 ||
        vial_vessel_list(engine, cli_flag(cli, "prefix"), &list, &err) < 0)
        return cli_fail(cli, &err);
    return cli_flag(cli, "json") ? print_compact(vessels_json(&list))
                                 : print_table(&list);
}

static const struct flag ps_flags[] = {
    { "prefix", "TEXT", "Only those whose name begins so (see the setting 'prefix')." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_ps;
const struct command command_ps = {
    .name = "ps",
    .summary = "list the vessels that exist on this host now",
    .text =
        "Of every driver; of a cluster or a service only where 'kubernetes' or 'e2b' is\n"
        "the usual one. An orphan is one whose caller has died; 'vial cleanup'\n"
        "removes it.",
    .examples = "vial ps\n"
                "vial ps --prefix acode\n"
                "vial ps --json",
    .flags = ps_flags,
    .run = run_ps,
};

static int run_cleanup(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_str struct str out = { 0 };
    struct vial_error err = { 0 };
    unsigned removed = 0;

    if (cli_engine(cli, &engine, &err) < 0 || vial_cleanup(engine, &removed, &err) < 0)
        return cli_fail(cli, &err);
    if (cli_flag(cli, "json"))
        return print_json(json_pack("{s:i}", "removed", (int)removed));
    str_printf(&out, "%u container%s removed\n", removed, removed == 1 ? "" : "s");
    return print_text(&out);
}

static const struct flag cleanup_flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_cleanup;
const struct command command_cleanup = {
    .name = "cleanup",
    .summary = "remove what callers that have died left behind",
    .text =
        "Containers and cgroups whose owner lives no more. What belongs to a living\n"
        "caller, or to one that cannot be seen from here, is left alone.",
    .examples = "vial cleanup\n"
                "vial cleanup --json",
    .flags = cleanup_flags,
    .run = run_cleanup,
};
