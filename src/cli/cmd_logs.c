/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/print.h"

static const char *text_of(json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "-";
}

static int list_runs(const struct cli *cli, const char *text)
{
    struct table t = { .columns = 5 };
    auto_json json_t *runs = json_loads(text, 0, NULL);

    if (cli_flag(cli, "json"))
        return print_line(text);
    table_add(&t, "RUN");
    table_add(&t, "REQUEST");
    table_add(&t, "WHAT");
    table_add(&t, "END");
    table_add(&t, "TIME");
    for (size_t i = 0; i < json_array_size(runs); i++) {
        json_t *run = json_array_get(runs, i);
        char ms[32];

        (void)snprintf(ms, sizeof(ms), "%.1f ms",
                       json_number_value(json_object_get(run, "duration_ms")));
        table_add(&t, text_of(run, "id"));
        table_add(&t, text_of(run, "request"));
        table_add(&t, text_of(run, "what"));
        table_add(&t, json_is_string(json_object_get(run, "verdict"))
                          ? text_of(run, "verdict")
                          : text_of(run, "state"));
        table_add(&t, json_is_string(json_object_get(run, "verdict")) ? ms : "-");
    }
    return table_print(&t);
}

static void show(int fd, json_t *run, const char *name)
{
    const char *text = json_string_value(json_object_get(run, name));
    auto_str struct str safe = { 0 };
    struct text_safe state = { 0 };

    if (!text)
        return;
    if (!isatty(fd)) {
        (void)io_write_all(fd, text, strlen(text));
        return;
    }
    text_safe(&state, &safe, text, strlen(text));
    text_safe_end(&state, &safe);
    if (str_ok(&safe))
        (void)io_write_all(fd, safe.data ? safe.data : "", safe.len);
}

static int show_run(const struct cli *cli, const char *text)
{
    auto_json json_t *run = json_loads(text, 0, NULL);

    if (cli_flag(cli, "json"))
        return print_line(text);
    show(STDOUT_FILENO, run, "stdout");
    show(STDERR_FILENO, run, "stderr");
    return STATUS_OK;
}

static int run(struct cli *cli)
{
    const char *id = cli_operand(cli, 0);
    auto_str struct str target = { 0 };
    auto_str struct str text = { 0 };
    struct vial_error err = { 0 };
    struct daemon d;

    str_puts(&target, "/v1/runs");
    if (id && (!*id || strchr(id, '/'))) {
        (void)fail(&err, VIAL_E_USAGE, "'%s' is no run's id", id);
        (void)fail_remedy(&err, "'vial logs' lists the runs");
        return cli_fail(cli, &err);
    }
    if (id) {
        str_putc(&target, '/');
        http_escape(&target, id);
    }
    if (!str_ok(&target))
        (void)fail_memory(&err);
    else if (daemon_find(cli, false, &d, &err) == 0 &&
             daemon_call(&d, &(struct daemon_ask){ "GET", target.data, NULL, NULL, -1 },
                         &text, &err) == 0)
        return id ? show_run(cli, text.data) : list_runs(cli, text.data);
    return cli_fail(cli, &err);
}

static const struct flag flags[] = {
    DAEMON_FLAG_ROW,
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_logs;
const struct command command_logs = {
    .name = "logs",
    .operands = "[RUN]",
    .summary = "show the daemon's runs, or what one of them printed",
    .text =
        "A run is named by its id, or by the id of its request. The daemon remembers\n"
        "the last runs, and the first part of what each printed.",
    .examples = "vial logs\n"
                "vial logs r-7f3a19c20b44d1e6",
    .flags = flags,
    .max_operands = 1,
    .run = run,
};
