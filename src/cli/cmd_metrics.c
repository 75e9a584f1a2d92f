/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/print.h"

static int ask_daemon(const struct cli *cli, struct str *out, struct vial_error *err)
{
    const struct daemon_ask ask = { "GET", "/metrics", NULL, NULL, -1 };
    struct daemon d;

    return daemon_find(cli, false, &d, err) < 0 ? -1 : daemon_call(&d, &ask, out, err);
}

static int ask_journal(const struct cli *cli, struct str *out, struct vial_error *err)
{
    auto_engine struct vial_engine *engine = NULL;
    auto_free char *text = NULL;

    if (cli_engine(cli, &engine, err) < 0 || vial_metrics(engine, &text, err) < 0)
        return -1;
    str_puts(out, text);
    return str_ok(out) ? 0 : fail_memory(err);
}

static int run(struct cli *cli)
{
    auto_str struct str out = { 0 };
    struct vial_error err = { 0 };
    bool daemon = cli_flag(cli, "daemon") || cli_flag(cli, "socket");

    if ((daemon ? ask_daemon(cli, &out, &err) : ask_journal(cli, &out, &err)) < 0)
        return cli_fail(cli, &err);
    return print_text(&out);
}

static const struct flag flags[] = {
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
    .flags = flags,
    .run = run,
};
