/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/print.h"

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static bool is_true(json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static void add_layer(struct str *out, json_t *layer)
{
    bool available = is_true(layer, "available");
    const char *reason = text_of(layer, "reason");

    str_printf(out, "  %-8s %-14s %s\n", available ? "ok" : "missing",
               text_of(layer, "name"), reason);
    if (!available && text_of(layer, "fix")[0])
        str_printf(out, "  %-8s %-14s fix: %s\n", "", "", text_of(layer, "fix"));
}

static void add_driver(struct str *out, json_t *driver)
{
    json_t *error = json_object_get(driver, "error");
    json_t *layers = json_object_get(driver, "layers");

    if (is_true(driver, "usable"))
        str_printf(out, "%s: usable%s%s, isolation %s, limits by %s%s\n",
                   text_of(driver, "name"),
                   text_of(driver, "version")[0] ? ", engine " : "",
                   text_of(driver, "version"), text_of(driver, "level"),
                   text_of(driver, "limits_by"),
                   is_true(driver, "automatic") ? "" : ", only when asked for");
    else
        str_printf(out, "%s: not usable: %s\n", text_of(driver, "name"),
                   text_of(error, "message"));
    if (text_of(error, "remedy")[0])
        str_printf(out, "  fix: %s\n", text_of(error, "remedy"));
    for (size_t i = 0; i < json_array_size(layers); i++)
        add_layer(out, json_array_get(layers, i));
}

/* Appends every driver; true when one of them is taken by itself. */
static bool add_drivers(struct str *out, json_t *drivers)
{
    bool fit = false;

    for (size_t i = 0; i < json_array_size(drivers); i++) {
        add_driver(out, json_array_get(drivers, i));
        fit = fit || is_true(json_array_get(drivers, i), "automatic");
    }
    return fit;
}

/* What a request without a driver of its own gets. */
static void add_needed(struct str *out, json_t *needed)
{
    const char *takes = text_of(needed, "takes");
    const char *wanted = text_of(needed, "driver");

    str_printf(out, "settings: driver %s", wanted);
    if (!takes[0])
        str_puts(out, ", which cannot be used here");
    else if (str_eq(wanted, "auto"))
        str_printf(out, ", which is %s here", takes);
    else if (!str_eq(wanted, takes))
        str_printf(out, ", for which %s stands in", takes);
    str_putc(out, '\n');
}

static int run(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_free char *text = NULL;
    auto_json json_t *report = NULL;
    auto_str struct str out = { 0 };
    struct vial_error err = { 0 };
    bool fit = false;
    int status = 0;

    if (cli_engine(cli, &engine, &err) < 0 || vial_doctor(engine, &text, &err) < 0)
        return cli_fail(cli, &err);
    report = json_loads(text, 0, NULL);
    fit = add_drivers(&out, json_object_get(report, "drivers"));
    add_needed(&out, json_object_get(report, "needed"));
    status = cli_flag(cli, "json") ? print_line(text) : print_text(&out);
    return status == STATUS_OK && !fit ? STATUS_UNFIT : status;
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
