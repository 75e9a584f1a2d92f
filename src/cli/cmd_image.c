/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/image_verbs.h"
#include "cli/print.h"

/* A row for each name, as an image may have several. */
static void add_row(struct table *t, json_t *image, const char *name)
{
    auto_str struct str size = { 0 };

    str_printf(&size, "%lld MiB",
               (long long)(json_integer_value(json_object_get(image, "size")) >> 20));
    table_add(t, name);
    table_add(t, image_handle(image));
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

    if ((image_is_engines(cli, engine)
             ? inside_images(engine, &images, err)
             : inside_stored_images(engine, &images, err)) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&images));
    table_add(&t, "IMAGE");
    table_add(&t, image_is_engines(cli, engine) ? "ID" : "DIGEST");
    table_add(&t, "SIZE");
    for (size_t i = 0; i < json_array_size(images); i++)
        add_image(&t, json_array_get(images, i));
    return table_print(&t);
}

static int prune_engine(struct cli *cli, struct vial_engine *engine,
                        struct vial_error *err)
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

/* Of each verb, what it does with the images of a container engine, or NULL; and with
 * those of the store. */
static const struct {
    const char *name;
    image_verb *engine, *store;
} verbs[] = { { "pull", image_pull_engine, image_pull_store },
              { "list", list, list },
              { "inspect", NULL, image_inspect },
              { "import", NULL, image_import },
              { "export", NULL, image_export },
              { "remove", NULL, image_remove },
              { "prune", prune_engine, image_prune_store },
              { "verify", NULL, image_verify_store } };

static int run_verb(struct cli *cli, size_t verb)
{
    auto_engine struct vial_engine *engine = NULL;
    struct vial_error err = { 0 };
    image_verb *run;
    int status;

    if (cli_engine(cli, &engine, &err) < 0)
        return cli_fail(cli, &err);
    run = image_is_engines(cli, engine) ? verbs[verb].engine : verbs[verb].store;
    if (!run) {
        (void)fail(&err, VIAL_E_UNSUPPORTED, "vial cannot '%s' images of an engine",
                   verbs[verb].name);
        (void)fail_remedy(&err,
                          "leave out '--driver docker', or ask the engine itself");
        return cli_fail(cli, &err);
    }
    status = run(cli, engine, &err);
    return status < 0 ? cli_fail_coded(cli, engine, &err) : status;
}

static int run_image(struct cli *cli)
{
    const char *what = cli_operand(cli, 0);
    struct vial_error err = { 0 };

    for (size_t i = 0; what && i < sizeof(verbs) / sizeof(*verbs); i++)
        if (strcmp(verbs[i].name, what) == 0)
            return run_verb(cli, i);
    if (what)
        (void)fail(&err, VIAL_E_USAGE, "unknown argument '%s'", what);
    else
        (void)fail(&err, VIAL_E_USAGE, "what to do is missing");
    (void)fail_remedy(&err, "usage: vial image list | prune | "
                            "pull|inspect|import|export|remove|verify NAME");
    return cli_fail(cli, &err);
}

static const struct flag image_flags[] = {
    { "timeout", "DURATION",
      "How long a pull may take; the settings' pull_timeout, 5m, unless told." },
    { "all", NULL, "Prune every image that nothing uses, not only nameless ones." },
    { "unused-for", "DURATION", "Prune every image that was not used for so long." },
    { "max-size", "SIZE",
      "Prune those that were not used longest, until the rest is not larger." },
    { "from", "FILE",
      "What to import: a tar of a root, an OCI layout (a directory or a tar) or what "
      "'docker save' wrote; '-', the default, is the standard input." },
    { "to", "FILE", "Where to export to; '-', the default, is the standard output." },
    { "driver", "NAME",
      "Whose images: native, vial's own, the default; docker, those of the container "
      "engine." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_image;
const struct command command_image = {
    .name = "image",
    .operands = "pull|list|inspect|import|export|remove|prune|verify [NAME]",
    .words = "pull|list|inspect|import|export|remove|prune|verify",
    .summary = "bring, list, check and remove images",
    .text =
        "Images of vial's own store, which need no container engine; those of the\n"
        "engine with --driver docker, or where the settings say so. A pull tells its\n"
        "progress on stderr, with --json as one object a line; its result is the\n"
        "image's digest, which stands for its name in every command, or the engine's\n"
        "id. A name with a digest (name@sha256:…) is verified against it. A registry\n"
        "that is busy or broken, or a connection that breaks, is tried again\n"
        "(VIAL_RETRIES, VIAL_RETRY_WAIT). verify finds what was changed in the store.",
    .examples = "vial image pull registry.example/python:3.12-slim\n"
                "vial image import my:1 --from rootfs.tar\n"
                "vial image export my:1 --to my.tar\n"
                "vial image prune --unused-for 720h --max-size 20g",
    .flags = image_flags,
    .max_operands = 2,
    .run = run_image,
};

static const char *text_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static int list_caches(struct cli *cli, struct vial_engine *engine,
                       struct vial_error *err)
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

static int prune_caches(struct cli *cli, struct vial_engine *engine,
                        struct vial_error *err)
{
    auto_str struct str out = { 0 };
    unsigned removed = 0;

    if (vial_cache_prune(engine, &removed, err) < 0)
        return -1;
    str_printf(&out, cli_flag(cli, "json") ? "{\"removed\":%u}\n" : "%u removed\n",
               removed);
    return print_text(&out);
}

static int run_cache(struct cli *cli)
{
    auto_engine struct vial_engine *engine = NULL;
    const char *what = cli_operand(cli, 0);
    struct vial_error err = { 0 };
    int status = -1;

    if (what && (strcmp(what, "list") == 0 || strcmp(what, "prune") == 0)) {
        if (cli_engine(cli, &engine, &err) == 0)
            status = what[0] == 'l' ? list_caches(cli, engine, &err)
                                    : prune_caches(cli, engine, &err);
        return status < 0 ? cli_fail(cli, &err) : status;
    }
    if (what)
        (void)fail(&err, VIAL_E_USAGE, "unknown argument '%s'", what);
    else
        (void)fail(&err, VIAL_E_USAGE, "what to do is missing");
    (void)fail_remedy(&err, "usage: vial cache list | prune");
    return cli_fail(cli, &err);
}

static const struct flag cache_flags[] = {
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
    .flags = cache_flags,
    .max_operands = 1,
    .run = run_cache,
};
