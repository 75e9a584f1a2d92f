/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "cli/events.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/verb.h"

#define WRITE_MAX ((size_t)1 << 30)

/* The slashes of a path stay as they are. */
int verb_add_path(struct str *out, const char *path, struct vial_error *err)
{
    while (*path) {
        size_t len = strcspn(path, "/");
        auto_free char *part = strndup(path, len);

        if (!part)
            return fail_memory(err);
        http_escape(out, part);
        path += len;
        if (*path)
            str_putc(out, *path++);
    }
    return str_ok(out) ? 0 : fail_memory(err);
}

static int file_target(const struct cli *cli, struct str *out, struct vial_error *err)
{
    if (verb_target(cli, "/files/", out, err) < 0)
        return -1;
    return verb_add_path(out, cli_operand(cli, 2), err);
}

int verb_write(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    const char *file = cli_operand(cli, 3);
    auto_str struct str target = { 0 };
    struct daemon_ask ask = { "PUT", NULL, NULL, NULL, -1 };
    struct blob bytes = { 0 };
    int rc;

    if (file_target(cli, &target, err) < 0)
        return -1;
    if (cli_flag(cli, "mode"))
        str_printf(&target, "?mode=%s", cli_flag(cli, "mode"));
    rc = file && strcmp(file, "-") != 0
             ? io_read_file(file, WRITE_MAX, &bytes, err)
             : io_read_fd(STDIN_FILENO, "standard input", WRITE_MAX, &bytes, err);
    ask.target = target.data;
    ask.bytes = &bytes;
    if (rc == 0)
        rc = daemon_call(d, &ask, NULL, err);
    blob_done(&bytes);
    return rc;
}

struct reading {
    bool raw;
    struct text_safe safe;
};

/* A program wrote the file. */
static int pass_on(void *context, const char *data, size_t len, struct vial_error *err)
{
    struct reading *r = context;
    int rc = r->raw ? io_write_all(STDOUT_FILENO, data, len)
                    : print_bytes(STDOUT_FILENO, &r->safe, data, len);

    return rc < 0 ? fail_sys_rc(err, rc, "write to standard output") : 0;
}

int verb_read(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    struct daemon_ask ask = { "GET", NULL, NULL, NULL, -1 };
    struct reading r = { .raw = cli_flag(cli, "raw") != NULL };

    if (file_target(cli, &target, err) < 0)
        return -1;
    ask.target = target.data;
    if (daemon_stream(d, &ask, pass_on, &r, err) < 0)
        return -1;
    return pass_on(&r, r.raw ? "" : NULL, 0, err);
}

static void add_row(struct table *t, json_t *entry)
{
    const char *path = json_string_value(json_object_get(entry, "path"));
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *mode = json_string_value(json_object_get(entry, "mode"));
    const char *target = json_string_value(json_object_get(entry, "target"));
    auto_str struct str name = { 0 };
    char size[24];

    (void)snprintf(size, sizeof(size), "%lld",
                   (long long)json_integer_value(json_object_get(entry, "size")));
    str_printf(&name, "%s%s%s", path ? path : "", target ? " -> " : "",
               target ? target : "");
    table_add(t, mode ? mode : "");
    table_add(t, type ? type : "");
    table_add(t, size);
    table_add(t, str_ok(&name) ? name.data : "");
}

int verb_ls(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    struct table t = { .columns = 4 };
    auto_str struct str target = { 0 };
    auto_str struct str said = { 0 };
    auto_json json_t *entries = NULL;

    if (verb_target(cli, "/list?path=", &target, err) < 0)
        return -1;
    http_escape(&target, cli_operand(cli, 2) ? cli_operand(cli, 2) : "");
    if (cli_flag(cli, "deep"))
        str_puts(&target, "&deep=1");
    if (!str_ok(&target))
        return fail_memory(err);
    if (daemon_call(d, &(struct daemon_ask){ "GET", target.data, NULL, NULL, -1 },
                    &said, err) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_line(said.data);
    entries = json_loads(said.data, 0, NULL);
    for (size_t i = 0; i < json_array_size(entries); i++)
        add_row(&t, json_array_get(entries, i));
    return json_array_size(entries) ? table_print(&t) : STATUS_OK;
}

/* One line an event; what a program called a file is shown safely. */
static int see_event(void *context, const char *event, json_t *object,
                     struct vial_error *err)
{
    const char *path = json_string_value(json_object_get(object, "path"));
    const char *from = json_string_value(json_object_get(object, "from"));
    auto_str struct str line = { 0 };

    (void)context;
    if (strcmp(event, "start") == 0)
        return 0;
    if (strcmp(event, "error") == 0) {
        remote_error(err, json_object_get(object, "error"));
        return -1;
    }
    str_printf(&line, "%-10s  %s%s%s\n", event, from ? from : "", from ? " -> " : "",
               path ? path : "");
    return print_text(&line) == STATUS_OK ? 0
                                          : fail(err, VIAL_E_SYSTEM, "write output");
}

static int see_json(void *context, const char *event, json_t *object,
                    struct vial_error *err)
{
    auto_free char *line = json_dumps(object, JSON_COMPACT);

    (void)context;
    (void)event;
    if (!line)
        return fail_memory(err);
    return print_line(line) == STATUS_OK ? 0 : fail(err, VIAL_E_SYSTEM, "write output");
}

int verb_watch(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_events struct events events = { .see = cli_flag(cli, "json") ? see_json
                                                                      : see_event };
    auto_str struct str target = { 0 };
    struct daemon_ask ask = { "GET", NULL, NULL, NULL, -1 };

    if (verb_target(cli, "/watch?stream=ndjson&path=", &target, err) < 0)
        return -1;
    http_escape(&target, cli_operand(cli, 2) ? cli_operand(cli, 2) : "");
    str_puts(&target, cli_flag(cli, "deep") ? "&deep=1" : "");
    str_puts(&target, cli_flag(cli, "attributes") ? "&attributes=1" : "");
    if (!str_ok(&target))
        return fail_memory(err);
    ask.target = target.data;
    return daemon_stream(d, &ask, events_take, &events, err);
}

int verb_rm(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };

    if (file_target(cli, &target, err) < 0)
        return -1;
    if (cli_flag(cli, "deep"))
        str_puts(&target, "?deep=1");
    return str_ok(&target) ? verb_do(d, "DELETE", target.data, NULL, err)
                           : fail_memory(err);
}

int verb_diff(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    bool json = cli_flag(cli, "json") != NULL;
    auto_str struct str target = { 0 };
    auto_str struct str said = { 0 };

    if (verb_target(cli, json ? "/workspace" : "/workspace?format=text", &target, err) <
        0)
        return -1;
    if (daemon_call(d, &(struct daemon_ask){ "GET", target.data, NULL, NULL, -1 },
                    &said, err) < 0)
        return -1;
    if (json)
        return print_line(said.data);
    return said.len ? print_text(&said) : STATUS_OK;
}

/* With paths only those, the rest stays in the layer. */
int verb_commit(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    auto_str struct str said = { 0 };
    auto_json json_t *body = json_object();
    auto_json json_t *report = NULL;
    auto_free char *text = NULL;
    auto_str struct str line = { 0 };
    json_t *paths = json_array();

    for (size_t i = 2; cli_operand(cli, i); i++)
        (void)json_array_append_new(paths, json_string(cli_operand(cli, i)));
    if (json_array_size(paths))
        (void)json_object_set(body, "paths", paths);
    json_decref(paths);
    text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return fail_memory(err);
    if (verb_target(cli, "/workspace/commit", &target, err) < 0 ||
        daemon_call(d, &(struct daemon_ask){ "POST", target.data, text, NULL, -1 },
                    &said, err) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_line(said.data);
    report = json_loads(said.data, 0, NULL);
    str_printf(&line, "%lld added, %lld modified, %lld deleted\n",
               (long long)json_integer_value(json_object_get(report, "added")),
               (long long)json_integer_value(json_object_get(report, "modified")),
               (long long)json_integer_value(json_object_get(report, "deleted")));
    return print_text(&line);
}

int verb_discard(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };

    if (verb_target(cli, "/workspace/discard", &target, err) < 0)
        return -1;
    return verb_do(d, "POST", target.data, NULL, err);
}

static int named(struct cli *cli, const struct daemon *d, const char *what,
                 struct vial_error *err)
{
    auto_str struct str target = { 0 };

    if (verb_target(cli, what, &target, err) < 0)
        return -1;
    http_escape(&target, cli_operand(cli, 2));
    return str_ok(&target) ? verb_do(d, "POST", target.data, NULL, err)
                           : fail_memory(err);
}

int verb_checkpoint(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    return named(cli, d, "/workspace/checkpoints/", err);
}

int verb_rollback(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    return named(cli, d, "/workspace/rollback/", err);
}
