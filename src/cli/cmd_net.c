/* SPDX-License-Identifier: Apache-2.0 */

/* What a program tries to reach: it runs with a gate, and the gate's account is what is
 * printed. The program's own output goes to stderr, so that ours can be piped. */

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/live.h"
#include "cli/print.h"
#include "cli/request_args.h"
#include "cli/watch_run.h"
#include "model/result.h"

/* What --record lets out: every name, on the ports that clients use most. A port has to
 * be listened on before a program tries it, so others are named by --allow. */
static const char *const learned[] = { "*", "*:22", "*:8080", "*:8443" };

static int prepare(const struct cli *cli, struct vial_request **out,
                   struct vial_error *err)
{
    auto_ask struct vial_request *req = NULL;

    if (request_args_command(cli, cli->options.operands + 1, &req, err) < 0 ||
        vial_request_set(req, "network", "gate", err) < 0)
        return -1;
    for (size_t i = 0;
         cli_flag(cli, "record") && i < sizeof(learned) / sizeof(*learned); i++)
        if (vial_request_set(req, "allow", learned[i], err) < 0)
            return -1;
    *out = ptr_take(&req);
    return 0;
}

static bool was_made(const struct vial_connection *c)
{
    return strcmp(c->verdict, "ok") == 0 && !c->incoming;
}

static bool reached(const struct vial_network *n, const char *name, unsigned port)
{
    for (size_t i = 0; i < n->count; i++)
        if (was_made(&n->connections[i]) && n->connections[i].port == port &&
            strcmp(n->connections[i].name, name) == 0)
            return true;
    return false;
}

/* The entry that lets C out and nothing else; a name on both of the usual ports is one
 * entry without any. */
static void add_entry(const struct vial_network *n, const struct vial_connection *c,
                      struct strv *out)
{
    auto_str struct str entry = { 0 };
    bool usual = c->port == 80 || c->port == 443;

    str_puts(&entry, c->name);
    if (!usual || !reached(n, c->name, c->port == 80 ? 443 : 80))
        str_printf(&entry, ":%u", c->port);
    if (str_ok(&entry) && !strv_has(out, entry.data))
        strv_push(out, entry.data);
}

static int smallest(const struct vial_network *n, struct strv *out)
{
    for (size_t i = 0; i < n->count; i++)
        if (was_made(&n->connections[i]))
            add_entry(n, &n->connections[i], out);
    return strv_ok(out) ? 0 : -1;
}

static void add_number(struct table *t, uint64_t n)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
    table_add(t, text);
}

static int print_table(const struct vial_network *n)
{
    static const char *const heads[] = {
        "NAME", "PORT", "VERDICT", "TIMES", "IN", "OUT"
    };
    struct table t = { .columns = sizeof(heads) / sizeof(*heads) };

    for (size_t i = 0; i < t.columns; i++)
        table_add(&t, heads[i]);
    for (size_t i = 0; i < n->count; i++) {
        const struct vial_connection *c = &n->connections[i];

        table_add(&t, c->name);
        if (c->port)
            add_number(&t, c->port);
        else
            table_add(&t, "-"); /* it was only looked up */
        table_add(&t, c->verdict);
        add_number(&t, c->times);
        add_number(&t, c->bytes_in);
        add_number(&t, c->bytes_out);
    }
    return table_print(&t);
}

static int print_lines(const struct strv *lines)
{
    int status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < lines->count; i++)
        status = print_line(lines->items[i]);
    return status;
}

static int print_object(const struct vial_result *r, const struct strv *allow)
{
    json_t *object = network_json(r->network);
    json_t *list = json_array();

    for (size_t i = 0; list && i < allow->count; i++)
        (void)json_array_append_new(list, json_string(allow->items[i]));
    if (!object || json_object_set_new(object, "allow", list) < 0 ||
        json_object_set_new(object, "addresses_refused",
                            json_integer((json_int_t)r->network_refused)) < 0 ||
        json_object_set_new(object, "program",
                            json_string(vial_verdict_name(r->verdict))) < 0 ||
        json_object_set_new(object, "exit_code", json_integer(r->exit_code)) < 0) {
        json_decref(object);
        object = NULL;
    }
    return print_json(object);
}

/* What the list cannot show. */
static void say_rest(const struct cli *cli, const struct vial_result *r)
{
    const struct vial_network *n = r->network;

    for (size_t i = 0; cli_flag(cli, "record") && i < n->count; i++)
        if (!was_made(&n->connections[i]))
            say("note: '%s' port %u was not reached: %s", n->connections[i].name,
                n->connections[i].port, n->connections[i].verdict);
    if (r->network_refused)
        say("note: %llu tries at addresses, at other ports or by UDP were refused",
            (unsigned long long)r->network_refused);
    if (n->left_out)
        say("note: %llu connections are not listed", (unsigned long long)n->left_out);
    if (!n->whole)
        say("warning: the gate was killed, and what it knew is lost");
}

static int report(const struct cli *cli, const struct vial_result *r)
{
    auto_strv struct strv allow = { 0 };
    int status;

    if (r->verdict == VIAL_DENIED || r->verdict == VIAL_FAILED || !r->network) {
        say_error(&r->error);
        return watch_run_status(r);
    }
    if (smallest(r->network, &allow) < 0)
        return print_line(NULL);
    if (cli_flag(cli, "json"))
        status = print_object(r, &allow);
    else {
        status =
            cli_flag(cli, "record") ? print_lines(&allow) : print_table(r->network);
        say_rest(cli, r);
    }
    return status == STATUS_OK ? watch_run_status(r) : status;
}

static int to_stderr(void *context, int stream, const void *data, size_t len)
{
    (void)stream;
    return live_write(context, 2, data, len);
}

static int follow(const struct cli *cli, const struct vial_request *req, int signal_fd)
{
    auto_engine struct vial_engine *engine = NULL;
    struct vial_result *result = NULL;
    struct vial_error err = { 0 };
    struct live live;
    struct vial_watch watch = { .cancel_fd = signal_fd,
                                .stdin_fd = request_args_stdin(cli),
                                .output = to_stderr,
                                .context = &live,
                                .planned = live_planned,
                                .live_only = true };
    int status, rc;

    if (cli_engine(cli, &engine, &err) < 0)
        return cli_fail(cli, &err);
    live_open(&live, false, signal_fd);
    rc = vial_run(engine, req, &watch, &result, &err);
    live_end(&live);
    live_close(&live);
    status = rc < 0 ? cli_fail(cli, &err) : report(cli, result);
    vial_result_free(result);
    return status;
}

static int run_net(struct cli *cli)
{
    auto_ask struct vial_request *req = NULL;
    auto_fd int signal_fd = -1;
    const char *verb = cli_operand(cli, 0);
    struct vial_error err = { 0 };

    if (!verb || strcmp(verb, "test") != 0) {
        (void)fail(&err, VIAL_E_USAGE, "unknown word '%s'", verb ? verb : "");
        (void)fail_remedy(&err, "usage: vial net %s", cli->command->operands);
        return cli_fail(cli, &err);
    }
    signal_fd = signals_open();
    if (signal_fd < 0) {
        (void)fail_sys_rc(&err, signal_fd, "watch for signals");
        return cli_fail(cli, &err);
    }
    if (prepare(cli, &req, &err) < 0)
        return cli_fail(cli, &err);
    return follow(cli, req, signal_fd);
}

static const char *const without[] = { "language", "code",    "command", "args",
                                       "outputs",  "network", NULL };

static const struct flag net_flags[] = {
    { "record", NULL,
      "Let every name out that the policy lets out, and print the entries that the "
      "program needed, one a line." },
    { "json", NULL, "Print the account and the entries as one JSON object." },
    { 0 },
};

extern const struct command command_net;
const struct command command_net = {
    .name = "net",
    .operands = "test [--] COMMAND [ARG…]",
    .words = "test",
    .summary = "show what a program tries to reach",
    .text =
        "Runs COMMAND as 'vial exec' does, with '--network gate' and the names that\n"
        "--allow has, and prints what it tried to reach, allowed or not. What the\n"
        "program itself prints goes to stderr. --record lets every public name out, on\n"
        "ports 22, 80, 443, 8080 and 8443 and those that --allow names, and prints the\n"
        "smallest allow list with which the program would have reached the same. Such a\n"
        "list can be a file in 'networks/', or values of --allow. Only record programs\n"
        "that you trust: what is recorded was reached.",
    .examples = "vial net test -- pip download six\n"
                "vial net test --allow python-packages -- pip download six\n"
                "vial net test --record -- npm ci > allow.list",
    .flags = net_flags,
    .shows_status = true,
    .takes_fields = true,
    .without = without,
    .program_at = 2,
    .run = run_net,
};
