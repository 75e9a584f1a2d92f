/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "api/inside.h"
#include "audit/refusals.h"
#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "engine/callers/registry.h"
#include "mcp/stdio.h"
#include "mcp/tool.h"
#include "mcp/turns.h"
#include "mcp/vial_server.h"

#include "vial/vessels.h"
#include "vial/warm.h"

/* Describes the server that a client starts: this program, with the settings it was
 * asked about. */
static json_t *server_json(const struct cli *cli, bool typed)
{
    static const char *const passed[] = { "preset", "config" };
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    json_t *args = json_pack("[s]", "mcp");
    json_t *server = json_object();

    self[len > 0 ? len : 0] = '\0';
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        const char *value = cli_flag(cli, passed[i]);

        if (value) {
            (void)json_array_append_new(args, json_sprintf("--%s", passed[i]));
            (void)json_array_append_new(args, json_string(value));
        }
    }
    if (typed)
        (void)json_object_set_new(server, "type", json_string("stdio"));
    (void)json_object_set_new(server, "command", json_string(len > 0 ? self : "vial"));
    (void)json_object_set_new(server, "args", args);
    return server;
}

static json_t *servers_json(const struct cli *cli, const char *key, bool typed)
{
    return json_pack("{s:{s:o}}", key, "vial", server_json(cli, typed));
}

/* Takes JSON. */
static void add_block(struct str *s, const char *title, json_t *json)
{
    auto_free char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;

    json_decref(json);
    str_printf(s, "%s\n\n%s\n\n", title, text ? text : "");
}

/* As a shell takes it. */
static void add_word(struct str *s, const char *word)
{
    str_puts(s, " '");
    for (; *word; word++)
        str_puts(s, *word == '\'' ? "'\\''" : (char[]){ *word, '\0' });
    str_puts(s, "'");
}

static void add_shell(struct str *s, const struct cli *cli)
{
    auto_json json_t *server = server_json(cli, false);
    const json_t *args = json_object_get(server, "args");

    str_puts(s, "Claude Code, in a shell:\n\nclaude mcp add vial --");
    add_word(s, json_string_value(json_object_get(server, "command")));
    for (size_t i = 0; i < json_array_size(args); i++)
        add_word(s, json_string_value(json_array_get(args, i)));
    str_puts(s, "\n\n");
}

static int print_config(const struct cli *cli)
{
    auto_str struct str s = { 0 };

    if (cli_flag(cli, "json"))
        return print_json(servers_json(cli, "mcpServers", false));
    add_shell(&s, cli);
    add_block(&s, "Claude Desktop, in claude_desktop_config.json; Cursor, in mcp.json:",
              servers_json(cli, "mcpServers", false));
    add_block(&s, "VS Code, in .vscode/mcp.json:", servers_json(cli, "servers", true));
    str_puts(&s,
             "Any other client: start the command above with its arguments and speak "
             "MCP over its\nstdin and stdout. Over HTTP: 'vial serve' offers the same "
             "at /mcp.\n");
    return print_text(&s);
}

/* On stderr, which clients show as the server's log. */
static void swept(void *context, const char *driver, unsigned removed,
                  const struct vial_error *err)
{
    (void)context;
    if (err)
        say_error(err);
    else
        say("cleanup: %u vessel%s of dead callers removed (%s)", removed,
            removed == 1 ? "" : "s", driver);
}

/* Languages that the settings name have interpreters wait, as in the daemon. A preset
 * whose calls each have a vessel of their own may want some to wait, too. */
static int warm_up(struct vial_engine *engine, struct vial_error *err)
{
    static const struct vial_warm_options few = { .target = 1, .ceiling = 4 };
    const struct settings *settings = inside_settings(engine);
    auto_strv struct strv languages = { 0 };
    bool on = serve_settings_warm(&settings->serve, &languages);
    const struct vial_warm_options named = {
        .languages = (const char *const *)languages.items,
    };

    if (on && languages.count > 0)
        return vial_engine_warm(engine, &named, err);
    return json_is_true(preset_get(settings->seed, "warm"))
               ? vial_engine_warm(engine, &few, err)
               : 0;
}

/* Everything between the engine and the client. */
struct service {
    struct vial_engine *engine;
    struct registry *registry;
    struct mcp_vial *server;
    struct vial_sweeper *sweeper;
};

static void not_recorded(void *context, const struct vial_error *err)
{
    (void)context;
    say_error(err);
}

static void refused(void *context, const struct mcp_call *call,
                    const struct vial_error *why)
{
    const struct refusal what = { .caller = "client",
                                  .address = "",
                                  .request = call->correlation ? call->correlation : "",
                                  .method = "tools/call",
                                  .path = "stdio",
                                  .why = why };

    refusals_record(context, &what);
}

/* In the same log as the runs, which the engine has opened; if it could not, it says so
 * with the first of them. */
static void open_refusals(struct refusals *refusals, const struct auditing *a)
{
    const struct audit_options options = {
        .path = a->path,
        .rotate_bytes = (uint64_t)a->rotate,
        .keep_files = (unsigned)a->keep,
        .lazy = a->lazy,
    };
    struct vial_error ignored = { 0 };

    (void)refusals_use(refusals, &options, &ignored);
}

static int open_turns(struct vial_engine *engine, struct mcp_turns *turns,
                      struct refusals *refusals, struct vial_error *err)
{
    const struct settings *settings = inside_settings(engine);

    if (mcp_turns_open(turns, &settings->serve, err) < 0)
        return -1;
    turns->refused = refused;
    turns->context = refusals;
    open_refusals(refusals, &settings->audit);
    return 0;
}

static int open_service(const struct cli *cli, struct mcp_turns *turns,
                        struct service *s, struct vial_error *err)
{
    const struct registry_options options = { .engine = s->engine, .sessions = 64 };
    const struct mcp_gate gate = mcp_turns_gate(turns);

    if (registry_open(&options, &s->registry, err) < 0 ||
        mcp_vial_open(s->engine, s->registry, cli_flag(cli, "preset"), &gate,
                      &s->server, err) < 0)
        return -1;
    return vial_sweeper_open(s->engine, 0, swept, NULL, &s->sweeper, err);
}

/* *STARTED: the client has been served. */
static int serve(const struct cli *cli, int out, bool *started, struct vial_error *err)
{
    auto_engine struct vial_engine *engine = NULL;
    struct service s = { 0 };
    struct mcp_turns turns = { 0 };
    struct refusals refusals;
    int rc;

    if (cli_engine(cli, &engine, err) < 0 || warm_up(engine, err) < 0)
        return -1;
    if (refusals_init(&refusals, not_recorded, NULL) < 0)
        return fail_memory(err);
    if (open_turns(engine, &turns, &refusals, err) < 0) {
        refusals_done(&refusals);
        return -1;
    }
    s.engine = engine;
    rc = open_service(cli, &turns, &s, err);
    *started = rc == 0;
    if (rc == 0)
        rc = mcp_stdio_serve(mcp_vial_core(s.server), STDIN_FILENO, out, err);
    vial_sweeper_close(s.sweeper);
    mcp_vial_close(s.server);
    registry_close(s.registry);
    mcp_turns_close(&turns);
    refusals_done(&refusals);
    return rc;
}

static int run(struct cli *cli)
{
    struct vial_error err = { 0 };
    /* Only messages may go to stdout: whatever else is written there goes to stderr. */
    auto_fd int out = -1;
    bool started = false;

    if (cli_flag(cli, "print-config"))
        return print_config(cli);
    out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        (void)fail_sys(&err, "move stdout aside");
        return cli_fail(cli, &err);
    }
    if (serve(cli, out, &started, &err) == 0)
        return STATUS_OK;
    say_error(&err);
    if (!started && !isatty(STDIN_FILENO))
        mcp_stdio_refuse(STDIN_FILENO, out, &err);
    return STATUS_VIAL;
}

static const struct flag flags[] = {
    { "print-config", NULL, "Print what to paste into the settings of MCP clients." },
    FLAG_ROW_JSON,
    { 0 },
};

extern const struct command command_mcp;
const struct command command_mcp = {
    .name = "mcp",
    .summary = "serve tools for agents over stdin and stdout (MCP)",
    .text =
        "Speaks the Model Context Protocol, 2026-07-28 and the versions from 2024-11-05 "
        "to\n2025-11-25, one message per line. It ends when its stdin does, and all "
        "runs and\nsandboxes with it. With --preset the tools have that preset's "
        "names.",
    .examples = "vial mcp --print-config\n"
                "vial mcp --preset klaw",
    .flags = flags,
    .run = run,
};
