/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "cli/print.h"
#include "cli/verb.h"

#define WRITE_MAX ((size_t)1 << 30)

/* The slashes of a path stay as they are. */
static int file_target(const struct cli *cli, struct str *out, struct vial_error *err)
{
    const char *path = cli_operand(cli, 2);

    if (verb_target(cli, "/files/", out, err) < 0)
        return -1;
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
    char size[24];

    (void)snprintf(size, sizeof(size), "%lld",
                   (long long)json_integer_value(json_object_get(entry, "size")));
    table_add(t, mode ? mode : "");
    table_add(t, type ? type : "");
    table_add(t, size);
    table_add(t, path ? path : "");
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
