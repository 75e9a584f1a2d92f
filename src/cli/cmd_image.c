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
#include "cli/pull_progress.h"
#include "cli/signals.h"

/* 0 where none is given: the settings say. */
static int read_timeout(const struct cli *cli, int64_t *out, struct vial_error *err)
{
    const char *text = cli_flag(cli, "timeout");

    *out = 0;
    if (!text || (unit_parse_ms(text, out) == 0 && *out > 0))
        return 0;
    (void)fail(err, VIAL_E_VALUE, "timeout '%s' is not a duration", text);
    return fail_remedy(err, "give seconds, or a number with a unit: '90s', '5m'");
}

/* Told to stop, it stops the pull and is recorded as such. */
static int do_pull(struct cli *cli, struct vial_engine *engine, int64_t timeout_ms,
                   json_t **image, struct vial_error *err)
{
    auto_fd int signal_fd = signals_open();
    struct pull_show show = pull_show_begin(cli);
    struct vial_pull pull = { .name = cli_operand(cli, 1),
                              .timeout_ms = timeout_ms,
                              .cancel_fd = signal_fd,
                              .progress = pull_show,
                              .context = &show };
    int rc;

    if (signal_fd < 0)
        return fail_sys_rc(err, signal_fd, "watch for signals");
    rc = inside_image_pull(engine, &pull, image, err);
    pull_show_end(&show);
    if (rc == 0)
        return STATUS_OK;
    if (strcmp(err->code, fail_code_text(VIAL_E_CANCELLED)) == 0) {
        int signal = signals_seen(signal_fd);

        return signal ? STATUS_SIGNAL + signal : -1;
    }
    return -1;
}

static int pull(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    auto_json json_t *image = NULL;
    int64_t timeout_ms = 0;
    int status;

    if (!cli_operand(cli, 1)) {
        (void)fail(err, VIAL_E_USAGE, "the image's name is missing");
        return fail_remedy(err, "usage: vial image pull NAME");
    }
    if (read_timeout(cli, &timeout_ms, err) < 0)
        return -1;
    status = do_pull(cli, engine, timeout_ms, &image, err);
    if (status != STATUS_OK)
        return status;
    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&image));
    return print_line(json_string_value(json_object_get(image, "id")));
}

/* A row for each name, as an image may have several. */
static void add_row(struct table *t, json_t *image, const char *name)
{
    const char *id = json_string_value(json_object_get(image, "id"));
    auto_str struct str size = { 0 };
    char brief[24] = "";

    if (id)
        (void)snprintf(brief, sizeof(brief), "%.19s", id);
    str_printf(&size, "%lld MiB",
               (long long)(json_integer_value(json_object_get(image, "size")) >> 20));
    table_add(t, name);
    table_add(t, brief);
    table_add(t, str_ok(&size) ? size.data : "");
}

static void add_image(struct table *t, json_t *image)
{
    json_t *tags = json_object_get(image, "tags");
    json_t *tag = NULL;
    size_t i = 0;

    if (json_array_size(tags) == 0)
        add_row(t, image, "-");
    json_array_foreach(tags, i, tag)
    {
        add_row(t, image, json_is_string(tag) ? json_string_value(tag) : "-");
    }
}

static int list(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    struct table t = { .columns = 3 };
    auto_json json_t *images = NULL;

    if (inside_images(engine, &images, err) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&images));
    table_add(&t, "IMAGE");
    table_add(&t, "ID");
    table_add(&t, "SIZE");
    for (size_t i = 0; i < json_array_size(images); i++)
        add_image(&t, json_array_get(images, i));
    return table_print(&t);
}

static int prune(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    const struct vial_prune what = { .all = cli_flag(cli, "all") != NULL };
    auto_json json_t *report = NULL;
    auto_str struct str out = { 0 };

    if (inside_image_prune(engine, &what, &report, err) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&report));
    str_printf(
        &out, "%lld removed, %lld MiB freed\n",
        (long long)json_integer_value(json_object_get(report, "removed")),
        (long long)(json_integer_value(json_object_get(report, "freed_bytes")) >> 20));
    return print_text(&out);
}

static int run(struct cli *cli)
{
    static const struct {
        const char *name;
        int (*run)(struct cli *cli, struct vial_engine *engine, struct vial_error *err);
    } verbs[] = { { "pull", pull }, { "list", list }, { "prune", prune } };
    auto_engine struct vial_engine *engine = NULL;
    const char *what = cli_operand(cli, 0);
    struct vial_error err = { 0 };

    for (size_t i = 0; what && i < sizeof(verbs) / sizeof(*verbs); i++) {
        int status = 0;

        if (strcmp(verbs[i].name, what) != 0)
            continue;
        if (cli_engine(cli, &engine, &err) < 0)
            return cli_fail(cli, &err);
        status = verbs[i].run(cli, engine, &err);
        return status < 0 ? cli_fail_coded(cli, engine, &err) : status;
    }
    if (what)
        (void)fail(&err, VIAL_E_USAGE, "unknown argument '%s'", what);
    else
        (void)fail(&err, VIAL_E_USAGE, "what to do is missing");
    (void)fail_remedy(&err, "usage: vial image pull NAME | list | prune");
    return cli_fail(cli, &err);
}

static const struct flag flags[] = {
    { "timeout", "DURATION",
      "How long a pull may take; the settings' pull_timeout, 5m, unless told." },
    { "all", NULL,
      "Prune every image that no container uses, not only nameless ones." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_image;
const struct command command_image = {
    .name = "image",
    .operands = "pull|list|prune [NAME]",
    .words = "pull|list|prune",
    .summary = "pull, list or remove images of the container engine",
    .text =
        "For the driver docker. A pull tells its progress on stderr, with --json as\n"
        "one object a line; its result is the image's id. A name with a digest\n"
        "(name@sha256:…) is verified against it. A registry that is busy or broken, or\n"
        "a connection that breaks, is tried again (VIAL_RETRIES, VIAL_RETRY_WAIT).",
    .examples = "vial image pull python:3.11-slim\n"
                "vial image list --json",
    .flags = flags,
    .max_operands = 2,
    .run = run,
};
