/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image_verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/inside.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/unit.h"
#include "cli/live.h"
#include "cli/print.h"
#include "cli/pull_progress.h"
#include "images/store_remove.h"
#include "model/request.h"

typedef int pull_function(struct vial_engine *engine, const struct vial_pull *pull,
                          json_t **out, struct vial_error *err);

bool image_is_engines(const struct cli *cli, const struct vial_engine *engine)
{
    const char *driver = cli_flag(cli, "driver");
    char usual[64] = "";

    request_choice(&inside_settings(engine)->defaults, FIELD_ID_driver, usual);
    return strcmp(driver ? driver : usual, "docker") == 0;
}

const char *image_handle(json_t *image)
{
    const char *digest = json_string_value(json_object_get(image, "digest"));
    const char *id = json_string_value(json_object_get(image, "id"));

    return digest ? digest : id ? id : "";
}

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
static int do_pull(struct cli *cli, struct vial_engine *engine, pull_function *pull_it,
                   int64_t timeout_ms, json_t **image, struct vial_error *err)
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
    rc = pull_it(engine, &pull, image, err);
    pull_show_end(&show);
    if (rc == 0)
        return STATUS_OK;
    if (fail_is(err, VIAL_E_CANCELLED)) {
        int signal = signals_seen(signal_fd);

        return signal ? STATUS_SIGNAL + signal : -1;
    }
    return -1;
}

static int need_name(const struct cli *cli, struct vial_error *err)
{
    if (cli_operand(cli, 1))
        return 0;
    (void)fail(err, VIAL_E_USAGE, "the image's name is missing");
    return fail_remedy(err, "usage: vial image %s NAME", cli_operand(cli, 0));
}

static int pull(struct cli *cli, struct vial_engine *engine, pull_function *pull_it,
                struct vial_error *err)
{
    auto_json json_t *image = NULL;
    int64_t timeout_ms = 0;
    int status;

    if (need_name(cli, err) < 0 || read_timeout(cli, &timeout_ms, err) < 0)
        return -1;
    status = do_pull(cli, engine, pull_it, timeout_ms, &image, err);
    if (status != STATUS_OK)
        return status;
    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&image));
    return print_line(image_handle(image));
}

int image_pull_engine(struct cli *cli, struct vial_engine *engine,
                      struct vial_error *err)
{
    return pull(cli, engine, inside_image_pull, err);
}

int image_pull_store(struct cli *cli, struct vial_engine *engine,
                     struct vial_error *err)
{
    return pull(cli, engine, inside_store_pull, err);
}

int image_inspect(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    auto_json json_t *image = NULL;

    if (need_name(cli, err) < 0 ||
        inside_stored_image(engine, cli_operand(cli, 1), &image, err) < 0)
        return -1;
    return print_json(ptr_take(&image));
}

/* Waits for VERB, as a pull does. */
static int do_verb(struct cli *cli, struct vial_engine *engine, const char *verb,
                   const struct image_ends *ends, json_t **out, struct vial_error *err)
{
    auto_fd int signal_fd = signals_open();
    struct pull_show show = pull_show_begin(cli);
    struct vial_pull image = { .name = cli_operand(cli, 1),
                               .cancel_fd = signal_fd,
                               .progress = pull_show,
                               .context = &show };
    int rc;

    if (signal_fd < 0)
        return fail_sys_rc(err, signal_fd, "watch for signals");
    rc = inside_store_do(engine, verb, &image, ends, out, err);
    pull_show_end(&show);
    return rc;
}

static int open_source(const char *from, struct image_ends *ends,
                       struct vial_error *err)
{
    struct stat st;

    if (!from || strcmp(from, "-") == 0) {
        ends->in_fd = STDIN_FILENO;
        return 0;
    }
    ends->in_fd = open(from, O_RDONLY | O_CLOEXEC);
    if (ends->in_fd < 0 || fstat(ends->in_fd, &st) < 0) {
        (void)fail_sys(err, "open '%s'", from);
        return fail_as(err, VIAL_E_FILE);
    }
    if (S_ISDIR(st.st_mode))
        ends->path = from;
    return 0;
}

int image_import(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    struct image_ends ends = { .in_fd = -1, .out_fd = -1 };
    auto_json json_t *image = NULL;
    int rc;

    if (open_source(cli_flag(cli, "from"), &ends, err) < 0)
        return -1;
    rc = do_verb(cli, engine, "import", &ends, &image, err);
    if (ends.in_fd > STDIN_FILENO)
        (void)close(ends.in_fd);
    if (rc < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&image));
    return print_line(image_handle(image));
}

/* A file is complete, or not there. */
static int export_to(struct cli *cli, struct vial_engine *engine, const char *to,
                     json_t **out, struct vial_error *err)
{
    struct image_ends ends = { .in_fd = -1, .out_fd = STDOUT_FILENO };
    auto_str struct str part = { 0 };
    auto_fd int fd = -1;
    int rc;

    if (strcmp(to, "-") == 0)
        return do_verb(cli, engine, "export", &ends, out, err);
    str_printf(&part, "%s.part", to);
    if (!str_ok(&part))
        return fail_memory(err);
    ends.out_fd = fd =
        open(part.data, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_sys(err, "create '%s'", part.data);
    rc = do_verb(cli, engine, "export", &ends, out, err);
    if (rc == 0 && rename(part.data, to) < 0)
        rc = fail_sys(err, "create '%s'", to);
    if (rc < 0)
        (void)unlink(part.data);
    return rc;
}

int image_export(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    const char *to = cli_flag(cli, "to") ? cli_flag(cli, "to") : "-";
    auto_json json_t *said = NULL;

    if (need_name(cli, err) < 0)
        return -1;
    if (strcmp(to, "-") == 0 && isatty(STDOUT_FILENO)) {
        (void)fail(err, VIAL_E_USAGE, "an archive does not go to a terminal");
        return fail_remedy(err, "name a file: '--to image.tar'");
    }
    if (export_to(cli, engine, to, &said, err) < 0)
        return -1;
    return strcmp(to, "-") != 0 && cli_flag(cli, "json")
               ? print_compact(ptr_take(&said))
               : STATUS_OK;
}

static int tell_removed(const struct cli *cli, json_t *report)
{
    auto_str struct str out = { 0 };

    if (cli_flag(cli, "json"))
        return print_compact(report);
    str_printf(
        &out, "%lld removed, %lld MiB freed\n",
        (long long)json_integer_value(json_object_get(report, "removed")),
        (long long)(json_integer_value(json_object_get(report, "freed_bytes")) >> 20));
    json_decref(report);
    return print_text(&out);
}

int image_remove(struct cli *cli, struct vial_engine *engine, struct vial_error *err)
{
    json_t *report = NULL;

    if (need_name(cli, err) < 0 ||
        inside_store_remove(engine, cli_operand(cli, 1), &report, err) < 0)
        return -1;
    return tell_removed(cli, report);
}

int image_prune_store(struct cli *cli, struct vial_engine *engine,
                      struct vial_error *err)
{
    const char *unused = cli_flag(cli, "unused-for");
    const char *size = cli_flag(cli, "max-size");
    struct store_prune rules = { .all = cli_flag(cli, "all") != NULL };
    int64_t ms = 0;
    json_t *report = NULL;

    if (unused && unit_parse_ms(unused, &ms) < 0)
        return fail(err, VIAL_E_VALUE, "unused-for '%s' is not a duration", unused);
    if (size && unit_parse_bytes(size, &rules.max_bytes) < 0)
        return fail(err, VIAL_E_VALUE, "max-size '%s' is not a size", size);
    rules.unused_for_s = ms / 1000;
    if (inside_store_prune(engine, &rules, &report, err) < 0)
        return -1;
    return tell_removed(cli, report);
}

int image_verify_store(struct cli *cli, struct vial_engine *engine,
                       struct vial_error *err)
{
    auto_json json_t *report = NULL;
    json_t *found = NULL;
    json_t *line = NULL;
    size_t i = 0;
    bool whole;

    if (need_name(cli, err) < 0 ||
        do_verb(cli, engine, "verify", NULL, &report, err) < 0)
        return -1;
    found = json_object_get(report, "found");
    whole = json_array_size(found) == 0;
    if (cli_flag(cli, "json"))
        return print_compact(ptr_take(&report)) || whole ? STATUS_OK : STATUS_UNFIT;
    json_array_foreach(found, i, line)
    {
        if (print_line(json_string_value(line)) != STATUS_OK)
            return STATUS_PIPE;
    }
    return whole ? STATUS_OK : STATUS_UNFIT;
}
