/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/unit.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "volumes/volume_store.h"

/* What a verb works on. */
struct work {
    const struct cli *cli;
    const char *store;
    const char *name; /* or NULL */
};

static const char *state_of(const struct volume_info *v)
{
    return v->written ? "written" : v->busy ? "read" : "free";
}

static json_t *row_json(const struct volume_info *v)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:I}", "name", v->name, "writers",
                     v->many ? "many" : "one", "state", state_of(v), "created",
                     (json_int_t)v->created, "used", (json_int_t)v->used);
}

static int tell(const struct work *w, const char *what)
{
    if (cli_flag(w->cli, "json"))
        return print_compact(json_pack("{s:s}", what, w->name));
    return print_line(w->name);
}

static int create(const struct work *w, struct vial_error *err)
{
    const char *writers = cli_flag(w->cli, "writers");
    struct volume_terms terms = { .many = str_eq(writers, "many") };

    return volume_create(w->store, w->name, &terms, err) < 0 ? -1 : tell(w, "created");
}

static int list(const struct work *w, struct vial_error *err)
{
    auto_free struct volume_info *rows = NULL;
    struct table t = { .columns = 3 };
    json_t *all = json_array();
    size_t count = 0;

    if (volume_list(w->store, &rows, &count, err) < 0) {
        json_decref(all);
        return -1;
    }
    table_add(&t, "VOLUME");
    table_add(&t, "WRITERS");
    table_add(&t, "STATE");
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(all, row_json(&rows[i]));
        table_add(&t, rows[i].name);
        table_add(&t, rows[i].many ? "many" : "one");
        table_add(&t, state_of(&rows[i]));
    }
    if (cli_flag(w->cli, "json")) {
        strv_done(&t.cells);
        return print_compact(all);
    }
    json_decref(all);
    return table_print(&t);
}

static int inspect(const struct work *w, struct vial_error *err)
{
    struct volume_info info;

    return volume_look(w->store, w->name, &info, err) < 0 ? -1
                                                          : print_json(row_json(&info));
}

static int remove_named(const struct work *w, struct vial_error *err)
{
    return volume_remove(w->store, w->name, err) < 0 ? -1 : tell(w, "removed");
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
    if (volume_prune(w->store, ms / 1000, &removed, err) < 0)
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
    auto_free char *store = NULL;
    struct vial_error err = { 0 };
    const struct verb *verb = find_verb(cli, &err);
    int status = -1;

    if (verb && cli_engine(cli, &engine, &err) == 0) {
        store = volume_store_path(inside_settings(engine)->home);
        if (store) {
            struct work w = { cli, store, cli_operand(cli, 1) };

            status = verb->run(&w, &err);
        } else {
            (void)fail(&err, VIAL_E_FILE, "there is no place for volumes");
            (void)fail_remedy(&err, "set HOME, or VIAL_VOLUME_STORE to a directory of "
                                    "your own");
        }
    }
    return status < 0 ? cli_fail(cli, &err) : status;
}

static const struct flag volume_flags[] = {
    { "writers", "HOW",
      "How many vessels may write to a new one at once: one, the default, or many.",
      "one|many" },
    { "unused-for", "DURATION", "Prune those that no vessel had for so long." },
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
        "volume, and any number may read it meanwhile, unless it was made with\n"
        "--writers many. A volume stays until it is removed; none goes while a vessel\n"
        "has it.",
    .examples = "vial volume create data\n"
                "vial run --volume data:/data:rw sh 'date >> /data/log'\n"
                "vial run --volume data:/data sh 'cat /data/log'\n"
                "vial volume prune --unused-for 720h",
    .flags = volume_flags,
    .max_operands = 2,
    .run = run_volume,
};
