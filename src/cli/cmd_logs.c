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
    struct text_safe state = { 0 };

    if (text && print_bytes(fd, &state, text, strlen(text)) == 0)
        (void)print_bytes(fd, &state, NULL, 0);
}

/* logfmt: "time=… event=create request=q-… run=r-… driver=docker". */
static int show_steps(json_t *run)
{
    auto_str struct str out = { 0 };
    json_t *step;
    size_t i;

    json_array_foreach(json_object_get(run, "steps"), i, step)
    {
        str_printf(&out, "time=%s event=%s request=%s run=%s", text_of(step, "time"),
                   text_of(step, "event"), text_of(run, "request"), text_of(run, "id"));
        for (void *at = json_object_iter(step); at;
             at = json_object_iter_next(step, at)) {
            auto_free char *value = json_dumps(
                json_object_iter_value(at), JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
            const char *name = json_object_iter_key(at);

            if (value && strcmp(name, "time") != 0 && strcmp(name, "event") != 0 &&
                strcmp(value, "null") != 0)
                str_printf(&out, " %s=%s", name, value);
        }
        str_putc(&out, '\n');
    }
    return print_text(&out);
}

static int show_run(const struct cli *cli, const char *text)
{
    auto_json json_t *run = json_loads(text, 0, NULL);

    if (cli_flag(cli, "json"))
        return print_line(text);
    if (cli_flag(cli, "steps"))
        return show_steps(run);
    show(STDOUT_FILENO, run, "stdout");
    show(STDERR_FILENO, run, "stderr");
    return STATUS_OK;
}

static int ask_daemon(const struct cli *cli, const char *target, struct str *out,
                      struct vial_error *err)
{
    const struct daemon_ask ask = { "GET", target, NULL, NULL, -1 };
    struct daemon d;

    return daemon_find(cli, false, &d, err) < 0 ? -1 : daemon_call(&d, &ask, out, err);
}

static int ask_daemon_runs(const struct cli *cli, const char *id, struct str *text,
                           struct vial_error *err)
{
    auto_str struct str target = { 0 };

    str_puts(&target, "/v1/runs");
    if (id) {
        str_putc(&target, '/');
        http_escape(&target, id);
    }
    return str_ok(&target) ? ask_daemon(cli, target.data, text, err) : fail_memory(err);
}

static int ask_journal(const struct cli *cli, const char *id, struct str *text,
                       struct vial_error *err)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_free char *json = NULL;

    if (cli_engine(cli, &engine, err) < 0 || vial_journal(engine, id, &json, err) < 0)
        return -1;
    str_puts(text, json);
    return str_ok(text) ? 0 : fail_memory(err);
}

/* The daemon, when one was named or answers and the caller keeps no journal. */
static int ask(const struct cli *cli, const char *id, struct str *text,
               struct vial_error *err)
{
    struct vial_error why = { 0 };

    if (cli_flag(cli, "daemon") || cli_flag(cli, "socket"))
        return ask_daemon_runs(cli, id, text, err);
    if (ask_journal(cli, id, text, err) == 0)
        return 0;
    return cli_flag(cli, "preset") ? -1 : ask_daemon_runs(cli, id, text, &why);
}

static int run_logs(struct cli *cli)
{
    const char *id = cli_operand(cli, 0);
    auto_str struct str text = { 0 };
    struct vial_error err = { 0 };

    if (id && (!*id || strchr(id, '/'))) {
        (void)fail(&err, VIAL_E_USAGE, "'%s' is no run's id", id);
        (void)fail_remedy(&err, "'vial logs' lists the runs");
        return cli_fail(cli, &err);
    }
    if (ask(cli, id, &text, &err) == 0)
        return id ? show_run(cli, text.data) : list_runs(cli, text.data);
    return cli_fail(cli, &err);
}

static const struct flag logs_flags[] = {
    { "daemon", NULL, "Ask the daemon, and not the caller's own journal." },
    { "steps", NULL,
      "Show what was done for the run, with times, instead of what it printed." },
    DAEMON_FLAG_ROW,
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_logs;
const struct command command_logs = {
    .name = "logs",
    .operands = "[RUN]",
    .summary = "show the last runs, or what one of them printed",
    .text =
        "A run is named by its id, or by the id of its request. Without a daemon these\n"
        "are the caller's own, if the settings keep a journal of them ('journal: {runs:\n"
        "200}', as the preset acode does); else the daemon's. Each is remembered with the\n"
        "first part of what it printed.",
    .examples = "vial logs\n"
                "vial logs r-7f3a19c20b44d1e6\n"
                "vial logs --steps r-7f3a19c20b44d1e6\n"
                "vial logs --daemon",
    .flags = logs_flags,
    .max_operands = 1,
    .run = run_logs,
};

static int count_journal(const struct cli *cli, struct str *out, struct vial_error *err)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_free char *text = NULL;

    if (cli_engine(cli, &engine, err) < 0 || vial_metrics(engine, &text, err) < 0)
        return -1;
    str_puts(out, text);
    return str_ok(out) ? 0 : fail_memory(err);
}

static int run_metrics(struct cli *cli)
{
    auto_str struct str out = { 0 };
    struct vial_error err = { 0 };
    bool daemon = cli_flag(cli, "daemon") || cli_flag(cli, "socket");

    if ((daemon ? ask_daemon(cli, "/metrics", &out, &err)
                : count_journal(cli, &out, &err)) < 0)
        return cli_fail(cli, &err);
    return print_text(&out);
}

static const struct flag metrics_flags[] = {
    { "daemon", NULL, "Ask the daemon, and not the caller's own journal." },
    DAEMON_FLAG_ROW,
    { 0 },
};

extern const struct command command_metrics;
const struct command command_metrics = {
    .name = "metrics",
    .summary = "show counts and durations of runs, for Prometheus",
    .text =
        "In Prometheus' text format: runs by verdict, how long vessels took to open,\n"
        "programs to run and vessels to be removed, limits that were touched, and the\n"
        "vessels there are now. Of the caller's own runs, if the settings keep a journal\n"
        "of them ('journal: {runs: 200}', as the preset acode does); with --daemon of\n"
        "all that the daemon ran.",
    .examples = "vial metrics > /var/lib/prometheus/node-exporter/vial.prom\n"
                "vial metrics --daemon",
    .flags = metrics_flags,
    .run = run_metrics,
};
