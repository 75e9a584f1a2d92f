/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/unit.h"
#include "cli/cli.h"
#include "cli/print.h"

/* What a verb works on. */
struct work {
    const struct cli *cli;
    struct vial_engine *engine;
    const char *name; /* or NULL */
};

static int tell(const struct work *w, const char *what)
{
    if (cli_flag(w->cli, "json"))
        return print_compact(json_pack("{s:s}", what, w->name));
    return print_line(w->name);
}

static int create(const struct work *w, struct vial_error *err)
{
    const char *size = cli_flag(w->cli, "size");
    struct inside_volume wanted = { .name = w->name,
                                    .many =
                                        str_eq(cli_flag(w->cli, "writers"), "many") };

    if (size && (unit_parse_bytes(size, &wanted.size) < 0 || wanted.size <= 0))
        return fail(err, VIAL_E_VALUE, "size '%s' is not a number of bytes", size);
    return inside_volume_create(w->engine, NULL, &wanted, err) < 0 ? -1
                                                                   : tell(w, "created");
}

static int list(const struct work *w, struct vial_error *err)
{
    struct table t = { .columns = 3 };
    json_t *all = NULL;
    json_t *row;
    size_t i;

    if (inside_volumes(w->engine, &all, err) < 0)
        return -1;
    if (cli_flag(w->cli, "json"))
        return print_compact(all);
    table_add(&t, "VOLUME");
    table_add(&t, "WRITERS");
    table_add(&t, "STATE");
    json_array_foreach(all, i, row)
    {
        table_add(&t, json_string_value(json_object_get(row, "name")));
        table_add(&t, json_string_value(json_object_get(row, "writers")));
        table_add(&t, json_string_value(json_object_get(row, "state")));
    }
    json_decref(all);
    return table_print(&t);
}

static int inspect(const struct work *w, struct vial_error *err)
{
    json_t *row = NULL;

    return inside_volume(w->engine, w->name, &row, err) < 0 ? -1 : print_json(row);
}

static int remove_named(const struct work *w, struct vial_error *err)
{
    return inside_volume_remove(w->engine, NULL, w->name, err) < 0 ? -1
                                                                   : tell(w, "removed");
}

static int prune(const struct work *w, struct vial_error *err)
{
    const char *unused = cli_flag(w->cli, "unused-for");
    auto_str struct str out = { 0 };
    unsigned removed = 0;
    int64_t ms = 0;

    if (!unused) {
        (void)fail(err, VIAL_E_USAGE, "how long they were not used is missing");
        return fail_remedy(err, "for example 'vial volume prune --unused-for 720h'");
    }
    if (unit_parse_ms(unused, &ms) < 0 || ms < 1000)
        return fail(err, VIAL_E_VALUE,
                    "unused-for '%s' is not a duration of a second or more", unused);
    if (inside_volume_prune(w->engine, ms / 1000, &removed, err) < 0)
        return -1;
    str_printf(&out, cli_flag(w->cli, "json") ? "{\"removed\":%u}\n" : "%u removed\n",
               removed);
    return print_text(&out);
}

static const struct verb {
    const char *name;
    int (*run)(const struct work *w, struct vial_error *err);
    bool named;
} verbs[] = { { "create", create, true },
              { "list", list, false },
              { "inspect", inspect, true },
              { "remove", remove_named, true },
              { "prune", prune, false } };

static const struct verb *find_verb(const struct cli *cli, struct vial_error *err)
{
    const char *what = cli_operand(cli, 0);
    bool named = cli_operand(cli, 1) != NULL;

    for (size_t i = 0; what && i < sizeof(verbs) / sizeof(*verbs); i++)
        if (str_eq(verbs[i].name, what) && verbs[i].named == named)
            return &verbs[i];
    if (what && named)
        (void)fail(err, VIAL_E_USAGE, "'%s' is not understood, or takes no name", what);
    else if (what)
        (void)fail(err, VIAL_E_USAGE,
                   "'%s' is not understood, or its volume is missing", what);
    else
        (void)fail(err, VIAL_E_USAGE, "what to do is missing");
    (void)fail_remedy(err, "usage: vial volume list | create|inspect|remove NAME | "
                           "prune --unused-for DURATION");
    return NULL;
}

static int run_volume(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    struct vial_error err = { 0 };
    const struct verb *verb = find_verb(cli, &err);
    int status = -1;

    if (verb && cli_engine(cli, &engine, &err) == 0) {
        struct work w = { cli, engine, cli_operand(cli, 1) };

        status = verb->run(&w, &err);
    }
    return status < 0 ? cli_fail(cli, &err) : status;
}

static const struct flag volume_flags[] = {
    { "writers", "HOW",
      "How many vessels may write to a new one at once: one, the default, or many.",
      "one|many" },
    { "size", "SIZE",
      "How many bytes a new one holds, from 16m on; where root keeps volumes. They are "
      "taken from the disk at once." },
    { "unused-for", "DURATION",
      "For prune, which needs it: those that no vessel had for so long." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_volume;
const struct command command_volume = {
    .name = "volume",
    .operands = "create|list|inspect|remove|prune [NAME]",
    .words = "create|list|inspect|remove|prune",
    .summary = "make, list and remove directories that outlive vessels",
    .text =
        "For the driver native. A run or session with --volume NAME:DIR finds there what\n"
        "earlier ones left; with :rw it may write. One vessel at a time may write to a\n"
        "volume, unless it was made with --writers many; any number may read it\n"
        "meanwhile. 'inspect' tells its size. With --size it holds no more than that.\n"
        "A volume stays until it is removed; none goes while a vessel has it.",
    .examples = "vial volume create data\n"
                "vial run --volume data:/data:rw sh 'date >> /data/log'\n"
                "vial run --volume data:/data sh 'cat /data/log'\n"
                "vial volume prune --unused-for 720h",
    .flags = volume_flags,
    .max_operands = 2,
    .run = run_volume,
};
