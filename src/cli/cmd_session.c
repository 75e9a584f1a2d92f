/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "cli/request_args.h"
#include "cli/verb.h"

int verb_target(const struct cli *cli, const char *rest, struct str *out,
                struct vial_error *err)
{
    str_puts(out, "/v1/sessions/");
    http_escape(out, cli_operand(cli, 1));
    if (rest)
        str_puts(out, rest);
    return str_ok(out) ? 0 : fail_memory(err);
}

int verb_do(const struct daemon *d, const char *method, const char *target,
            const char *json, struct vial_error *err)
{
    return daemon_call(d, &(struct daemon_ask){ method, target, json, NULL, -1 }, NULL,
                       err);
}

static int get(const struct daemon *d, const char *target, struct str *out,
               struct vial_error *err)
{
    return daemon_call(d, &(struct daemon_ask){ "GET", target, NULL, NULL, -1 }, out,
                       err);
}

static int post_start(const struct cli *cli, const struct daemon *d, const char *target,
                      struct str *said, struct vial_error *err)
{
    auto_ask struct vial_request *req = NULL;
    auto_json json_t *body = NULL;
    auto_free char *text = NULL;
    static const char *const own[] = { "idle", "lease" };

    if (request_args_flags(cli, &req, err) < 0 ||
        daemon_request(req, -1, &body, err) < 0)
        return -1;
    for (size_t i = 0; i < 2; i++)
        if (cli_flag(cli, own[i]))
            (void)json_object_set_new(body, own[i], json_string(cli_flag(cli, own[i])));
    text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return fail_memory(err);
    return daemon_call(d, &(struct daemon_ask){ "POST", target, text, NULL, -1 }, said,
                       err);
}

int verb_start(const struct cli *cli, const struct daemon *d, struct str *said,
               struct vial_error *err)
{
    return post_start(cli, d, "/v1/sessions", said, err);
}

/* Prints the id of the session that was opened. */
static int open_session(const struct cli *cli, const struct daemon *d,
                        const char *target, struct vial_error *err)
{
    auto_json json_t *answer = NULL;
    auto_str struct str said = { 0 };

    if (post_start(cli, d, target, &said, err) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_line(said.data);
    answer = json_loads(said.data, 0, NULL);
    return print_line(json_string_value(json_object_get(answer, "id")));
}

static int start(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    return open_session(cli, d, "/v1/sessions", err);
}

static const char *text_of(json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "-";
}

int verb_list(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    static const char *const names[] = { "id", "outcome", "driver", "level" };
    struct table t = { .columns = 5 };
    auto_json json_t *sessions = NULL;
    auto_str struct str said = { 0 };

    if (get(d, "/v1/sessions", &said, err) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_line(said.data);
    sessions = json_loads(said.data, 0, NULL);
    table_add(&t, "SESSION");
    table_add(&t, "STATE");
    table_add(&t, "DRIVER");
    table_add(&t, "LEVEL");
    table_add(&t, "PROGRAMS");
    for (size_t i = 0; i < json_array_size(sessions); i++) {
        json_t *session = json_array_get(sessions, i);
        char count[24];

        for (size_t n = 0; n < 4; n++)
            table_add(&t, n == 1 && json_is_true(json_object_get(session, "paused"))
                              ? "paused"
                              : text_of(session, names[n]));
        (void)snprintf(
            count, sizeof(count), "%lld",
            (long long)json_integer_value(json_object_get(session, "execs")));
        table_add(&t, count);
    }
    return table_print(&t);
}

static int show(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    auto_str struct str said = { 0 };

    if (verb_target(cli, NULL, &target, err) < 0 || get(d, target.data, &said, err) < 0)
        return -1;
    return cli_flag(cli, "json") ? print_line(said.data) : print_indented(said.data);
}

static int stop(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };

    if (verb_target(cli, NULL, &target, err) < 0)
        return -1;
    return verb_do(d, "DELETE", target.data, NULL, err);
}

static int renew(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    const char *lease = cli_flag(cli, "lease");
    auto_str struct str target = { 0 };
    auto_json json_t *body = json_object();
    auto_free char *text = NULL;

    if (lease)
        (void)json_object_set_new(body, "lease", json_string(lease));
    text = json_dumps(body, 0);
    if (!text)
        return fail_memory(err);
    if (verb_target(cli, "/renew", &target, err) < 0)
        return -1;
    return verb_do(d, "POST", target.data, text, err);
}

static int allow(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    auto_json json_t *body = json_pack("{s:[]}", "allow");
    auto_free char *text = NULL;

    for (char **entry = cli->options.operands + 2; *entry; entry++)
        (void)json_array_append_new(json_object_get(body, "allow"),
                                    json_string(*entry));
    text = json_dumps(body, 0);
    if (!text)
        return fail_memory(err);
    if (verb_target(cli, "/allow", &target, err) < 0)
        return -1;
    return verb_do(d, "PUT", target.data, text, err);
}

static int pause_session(struct cli *cli, const struct daemon *d,
                         struct vial_error *err)
{
    auto_str struct str target = { 0 };
    auto_json json_t *body =
        json_pack("{s:s, s:b}", "resume", cli_flag(cli, "auto") ? "auto" : "manual",
                  "reclaim", cli_flag(cli, "reclaim") != NULL);
    auto_free char *text = NULL;

    if (cli_flag(cli, "most"))
        (void)json_object_set_new(body, "most", json_string(cli_flag(cli, "most")));
    text = json_dumps(body, 0);
    if (!text)
        return fail_memory(err);
    if (verb_target(cli, "/pause", &target, err) < 0)
        return -1;
    return verb_do(d, "POST", target.data, text, err);
}

static int resume(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };

    if (verb_target(cli, "/resume", &target, err) < 0)
        return -1;
    return verb_do(d, "POST", target.data, NULL, err);
}

static int snapshot(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };
    auto_str struct str said = { 0 };
    auto_json json_t *answer = NULL;
    auto_json json_t *body = json_pack("{s:s}", "name", cli_operand(cli, 2));
    auto_free char *text = body ? json_dumps(body, 0) : NULL;

    if (!text)
        return fail_memory(err);
    if (verb_target(cli, "/snapshot", &target, err) < 0 ||
        daemon_call(d, &(struct daemon_ask){ "POST", target.data, text, NULL, -1 },
                    &said, err) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_line(said.data);
    answer = json_loads(said.data, 0, NULL);
    return print_line(json_string_value(json_object_get(answer, "image")));
}

static int fork_session(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };

    if (verb_target(cli, "/fork", &target, err) < 0)
        return -1;
    return open_session(cli, d, target.data, err);
}

static int forget(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str target = { 0 };

    str_puts(&target, "/v1/snapshots/");
    if (verb_add_path(&target, cli_operand(cli, 1), err) < 0)
        return -1;
    return verb_do(d, "DELETE", target.data, NULL, err);
}

static const struct verb verbs[] = {
    { "start", "", 0, start, VERB_STARTS },
    { "exec", "ID [-- COMMAND [ARG…]]", 1, verb_exec, " timeout cwd env " },
    { "attach", "ID NUMBER", 2, verb_attach },
    { "ps", "ID", 1, verb_ps },
    { "write", "ID PATH [FILE]", 2, verb_write },
    { "read", "ID PATH", 2, verb_read },
    { "ls", "ID [PATH]", 1, verb_ls },
    { "rm", "ID PATH", 2, verb_rm },
    { "watch", "ID [PATH]", 1, verb_watch },
    { "diff", "ID", 1, verb_diff },
    { "commit", "ID [PATH…]", 1, verb_commit },
    { "discard", "ID", 1, verb_discard },
    { "checkpoint", "ID NAME", 2, verb_checkpoint },
    { "rollback", "ID NAME", 2, verb_rollback },
    { "forward", "ID [LOCAL:]PORT", 2, verb_forward },
    { "allow", "ID [ENTRY…]", 1, allow },
    { "show", "ID", 1, show },
    { "renew", "ID", 1, renew },
    { "pause", "ID", 1, pause_session },
    { "resume", "ID", 1, resume },
    { "snapshot", "ID NAME", 2, snapshot },
    { "fork", "ID", 1, fork_session, VERB_STARTS },
    { "forget", "IMAGE", 1, forget },
    { "stop", "ID", 1, stop },
    { "list", "", 0, verb_list },
    { 0 },
};

static int refuse(const struct verb *known_verbs, const char *what,
                  struct vial_error *err)
{
    auto_str struct str known = { 0 };

    for (size_t i = 0; known_verbs[i].name; i++)
        str_printf(&known, "%s%s", i ? ", " : "", known_verbs[i].name);
    if (what)
        (void)fail(err, VIAL_E_USAGE, "unknown argument '%s'", what);
    else
        (void)fail(err, VIAL_E_USAGE, "what to do is missing");
    return fail_remedy(err, "one of %s", known.data ? known.data : "");
}

/* What only a session's start can set must not be passed over. */
static int refuse_field(const struct cli *cli, const struct verb *v,
                        const char *command, struct vial_error *err)
{
    for (size_t i = 0; i < cli->options.given_count; i++) {
        const struct field *f = cli->options.given[i].field;
        auto_str struct str name = { 0 };

        str_printf(&name, " %s ", f ? f->name : "");
        if (!f || (v->fields && str_ok(&name) && strstr(v->fields, name.data)))
            continue;
        (void)fail(err, VIAL_E_USAGE, "'%s' is set when the session starts", f->name);
        for (char *at = name.data; at && *at; at++)
            if (*at == '_')
                *at = '-';
        return fail_remedy(err, "vial %s start … --%s…", command,
                           name.data ? name.data + 1 : "");
    }
    return 0;
}

/* How many operands V takes besides itself: as many as it names, unless one goes on. */
static size_t most_operands(const struct verb *v)
{
    size_t words = v->operands[0] ? 1 : 0;

    for (const char *at = v->operands; *at; at++)
        words += *at == ' ';
    return strstr(v->operands, "…") ? SIZE_MAX : words;
}

static int judge_operands(const struct cli *cli, const struct verb *v,
                          const char *command, struct vial_error *err)
{
    size_t given = cli->options.operand_count - 1;
    size_t most = most_operands(v);

    if (given >= v->least && given <= most)
        return 0;
    if (given < v->least)
        (void)fail(err, VIAL_E_USAGE, "'%s %s' lacks an argument", command, v->name);
    else
        (void)fail(err, VIAL_E_USAGE, "'%s %s' has no use for '%.64s'", command,
                   v->name, cli_operand(cli, most + 1));
    if (most == 0 && str_eq(v->fields, VERB_STARTS))
        return fail_remedy(err,
                           "a session has no language: 'vial context %s LANG' is "
                           "an interpreter in one",
                           v->name);
    return fail_remedy(err, "usage: vial %s %s%s%s", command, v->name, most ? " " : "",
                       v->operands);
}

static int run_one(struct cli *cli, const struct verb *v, const char *command,
                   struct vial_error *err)
{
    bool starts = str_eq(v->fields, VERB_STARTS);
    struct daemon d;

    if (judge_operands(cli, v, command, err) < 0 ||
        (!starts && refuse_field(cli, v, command, err) < 0) ||
        daemon_find(cli, starts, &d, err) < 0)
        return -1;
    return v->run(cli, &d, err);
}

int verb_run(struct cli *cli, const struct verb *known, const char *command)
{
    const struct verb *first = known;
    const char *what = cli_operand(cli, 0);
    struct vial_error err = { 0 };
    int status = -1;

    while (what && known->name && strcmp(known->name, what) != 0)
        known++;
    status = what && known->name ? run_one(cli, known, command, &err)
                                 : refuse(first, what, &err);
    return status < 0 ? cli_fail(cli, &err) : status;
}

static int run(struct cli *cli)
{
    return verb_run(cli, verbs, "session");
}

static const struct flag flags[] = {
    { "idle", "DURATION", "start: end the session when nobody uses it for so long." },
    { "lease", "DURATION", "start, renew: end it anyhow after this." },
    { "detach", NULL, "exec: print the program's number, and do not wait." },
    { "tty", NULL, "exec: give the program a terminal." },
    { "deep", NULL, "ls, rm, watch: with all that is in directories." },
    { "auto", NULL, "pause: any use wakes the session; else uses are refused." },
    { "reclaim", NULL, "pause: give back memory that can be read again." },
    { "most", "DURATION", "pause: end it once it was paused for so long; usual: 24h." },
    { "attributes", NULL, "watch: changes of mode, owner and times, too." },
    { "mode", "OCTAL", "write: the file's mode." },
    { "stdout", "OFFSET", "attach: from this byte of stdout on." },
    { "stderr", "OFFSET", "attach: from this byte of stderr on." },
    { "raw", NULL, "Show output and files to a terminal untouched." },
    DAEMON_FLAG_ROW,
    FLAG_ROW_JSON,
    { 0 },
};

static const char *const without[] = { "language", "code",  "command", "args",
                                       "outputs",  "stdin", "end_on",  NULL };

extern const struct command command_session;
const struct command command_session = {
    .name = "session",
    .operands = "VERB [ID] …",
    .words =
        "start|exec|attach|ps|write|read|ls|rm|watch|diff|commit|discard|checkpoint|rollback|forward|allow|show|renew|pause|resume|snapshot|fork|forget|stop|list",
    .summary = "a vessel that stays open for several programs",
    .text =
        "Sessions live in the daemon; when none runs, 'start' starts a private one, which\n"
        "ends by itself once no session is open. 'start' takes the flags of a request and\n"
        "prints the session's id. 'exec' runs a program in it, with your standard input,\n"
        "and ends with the program's own status; without COMMAND what the session's image\n"
        "names (ENTRYPOINT and CMD).\n"
        "\n"
        "  start                          diff ID\n"
        "  exec ID [-- COMMAND [ARG…]]    commit ID [PATH…]\n"
        "  attach ID NUMBER, ps ID        discard ID\n"
        "  write ID PATH [FILE]           checkpoint ID NAME\n"
        "  read ID PATH                   rollback ID NAME\n"
        "  ls ID [PATH]                   show ID, renew ID\n"
        "  rm ID PATH, watch ID [PATH]    stop ID, list, pause ID, resume ID\n"
        "  forward ID [LOCAL:]PORT        allow ID [ENTRY…]\n"
        "  snapshot ID NAME               fork ID, forget IMAGE\n"
        "\n"
        "'snapshot' saves the files of a session with --image NAME --root-mode rw as an\n"
        "image, and prints what to start others with (--image …); 'fork' starts one with\n"
        "these files at once. Programs and memory stay behind. 'forget' removes it.\n"
        "\n"
        "'pause' freezes a session: nothing in it runs and its clocks stand still, until\n"
        "'resume ID' or, with --auto, any use. 'ps' tells each program's number,\n"
        "its pid inside the vessel and its state.\n"
        "\n"
        "'forward' listens on 127.0.0.1, on LOCAL (0: any that is free; usual: PORT), and\n"
        "leads there to PORT of a session that was started with --network gate.\n"
        "\n"
        "'allow' has its gate let out these entries, of those that it was started with,\n"
        "and nothing else from now on; without any, nothing at all.\n"
        "\n"
        "diff, commit, discard, checkpoint and rollback are for sessions started with\n"
        "--workspace DIR --workspace-mode overlay, which leave DIR alone until commit.",
    .examples = "id=$(vial session start --memory 256m)\n"
                "echo 'print(6*7)' | vial session write $id job.py\n"
                "vial session exec $id -- python3 job.py\n"
                "vial session stop $id",
    .flags = flags,
    .shows_status = true,
    .takes_fields = true,
    .without = without,
    .max_operands = 65536,
    .run = run,
};
