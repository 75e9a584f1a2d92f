/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/print.h"
#include "model/doctor.h"

static void add_layer(struct str *out, const struct vial_layer *layer)
{
    str_printf(out, "  %-8s %-14s %s\n", layer->available ? "ok" : "missing",
               layer->name, layer->reason);
    if (!layer->available && layer->fix[0])
        str_printf(out, "  %-8s %-14s fix: %s\n", "", "", layer->fix);
}

static void add_driver(struct str *out, const struct vial_driver *d)
{
    if (d->usable)
        str_printf(out, "%s: usable%s%s, isolation %s, limits by %s%s\n", d->name,
                   d->version ? ", engine " : "", d->version ? d->version : "",
                   d->level, d->limits_by, d->automatic ? "" : ", only when asked for");
    else
        str_printf(out, "%s: not usable: %s\n", d->name, d->error.message);
    if (d->error.remedy[0])
        str_printf(out, "  fix: %s\n", d->error.remedy);
    for (size_t i = 0; i < d->layer_count; i++)
        add_layer(out, &d->layers[i]);
}

/* Adds what a request gets that names no driver. */
static void add_needed(struct str *out, const struct vial_doctor *d)
{
    str_printf(out, "settings: driver %s", d->wanted);
    if (!d->takes)
        str_puts(out, ", which cannot be used here");
    else if (str_eq(d->wanted, "auto"))
        str_printf(out, ", which is %s here", d->takes);
    else if (!str_eq(d->wanted, d->takes))
        str_printf(out, ", for which %s stands in", d->takes);
    str_putc(out, '\n');
}

static int print_report(const struct vial_doctor *d)
{
    auto_str struct str out = { 0 };

    for (size_t i = 0; i < d->driver_count; i++)
        add_driver(&out, &d->drivers[i]);
    add_needed(&out, d);
    return print_text(&out);
}

/* One of the drivers is taken by itself. */
static bool is_fit(const struct vial_doctor *d)
{
    for (size_t i = 0; i < d->driver_count; i++)
        if (d->drivers[i].automatic)
            return true;
    return false;
}

static int run(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_doctor struct vial_doctor *doctor = NULL;
    struct vial_error err = { 0 };
    int status;

    if (cli_engine(cli, &engine, &err) < 0 ||
        vial_doctor_look(engine, &doctor, &err) < 0)
        return cli_fail(cli, &err);
    status = cli_flag(cli, "json") ? print_compact(doctor_json(doctor))
                                   : print_report(doctor);
    return status == STATUS_OK && !is_fit(doctor) ? STATUS_UNFIT : status;
}

static const struct flag flags[] = {
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_doctor;
const struct command command_doctor = {
    .name = "doctor",
    .summary = "show what this host can enforce, and how to get what is missing",
    .text =
        "For each driver: whether it can be used here, and every layer of protection\n"
        "with the reason and the fix where it is missing. Exit status 1: no driver here\n"
        "isolates.",
    .flags = flags,
    .run = run,
};
