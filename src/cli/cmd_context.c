/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Interpreters that remember, from the command line. Each is alone in a session of the
 * daemon's; its name is "SESSION/LANGUAGE".
 */

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/thread.h"
#include "cli/print.h"
#include "cli/request_args.h"
#include "cli/verb.h"

#define CELL_MAX     (16u << 20)
#define STATUS_ERROR 1

/* Where cells are run, and what signals are for. */
struct talk {
    const struct cli *cli;
    const struct daemon *daemon;
    const char *own; /* name of the interpreter that ends with us; NULL: none */
    sigset_t signals;
    atomic_bool over;
    struct str target; /* "/v1/sessions/ID/contexts/LANGUAGE" */
    struct text_safe safe[2];
};

static int find_target(const char *name, struct str *out, struct vial_error *err)
{
    const char *slash = strchr(name, '/');
    auto_free char *session = slash ? strndup(name, (size_t)(slash - name)) : NULL;

    if (!slash || !slash[1]) {
        (void)fail(err, VIAL_E_USAGE, "'%s' does not name an interpreter", name);
        return fail_remedy(err, "give what 'vial context start' printed: s-…/python");
    }
    str_puts(out, "/v1/sessions/");
    http_escape(out, session ? session : "");
    str_puts(out, "/contexts/");
    http_escape(out, slash + 1);
    return str_ok(out) ? 0 : fail_memory(err);
}

/* A cell's end as an exit status. */
static int status_of(const json_t *cell)
{
    static const struct {
        const char *status;
        int exit;
    } rows[] = { { "ok", STATUS_OK },
                 { "error", STATUS_ERROR },
                 { "interrupted", STATUS_SIGNAL + SIGINT },
                 { "timeout", STATUS_TIMEOUT } };
    const char *status = json_string_value(json_object_get(cell, "status"));

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (str_eq(status, rows[i].status))
            return rows[i].exit;
    return STATUS_VIAL;
}

static void put(struct talk *t, int stream, const char *text, size_t len)
{
    (void)print_bytes(stream == 1 ? STDOUT_FILENO : STDERR_FILENO, &t->safe[stream - 1],
                      text, len);
}

/* Its text, or what else it is. */
static void put_bundle(struct talk *t, const json_t *bundle)
{
    const json_t *text = json_object_get(bundle, "text/plain");

    if (!json_is_object(bundle))
        return;
    if (json_is_string(text))
        put(t, 1, json_string_value(text), json_string_length(text));
    else
        put(t, 1, "[a picture]", strlen("[a picture]"));
    put(t, 1, "\n", 1);
}

/* The next so many CHARACTERS of a stream, of which *AT bytes were shown. */
static void put_piece(struct talk *t, int stream, const json_t *text, size_t *at,
                      size_t characters)
{
    const char *from = json_string_value(text);
    size_t len = json_string_length(text), end = *at;

    for (; end < len && characters > 0; characters--)
        for (end++; end < len && ((unsigned char)from[end] & 0xc0) == 0x80;)
            end++;
    put(t, stream, from + *at, end - *at);
    *at = end;
}

/* Everything as it came. */
static void put_cell(struct talk *t, const json_t *cell)
{
    const json_t *streams[] = { json_object_get(cell, "stdout"),
                                json_object_get(cell, "stderr") };
    const json_t *displays = json_object_get(cell, "displays");
    const json_t *trace = json_object_get(json_object_get(cell, "error"), "traceback");
    size_t at[2] = { 0 }, shown = 0, i;
    json_t *piece;

    json_array_foreach(json_object_get(cell, "order"), i, piece)
    {
        const char *kind = json_string_value(json_object_get(piece, "kind"));
        size_t n = (size_t)json_integer_value(json_object_get(piece, "length"));
        size_t stream = str_eq(kind, "stderr");

        if (!str_eq(kind, "display"))
            put_piece(t, (int)stream + 1, streams[stream], &at[stream], n);
        for (; str_eq(kind, "display") && n > 0; n--)
            put_bundle(t, json_array_get(displays, shown++));
    }
    for (size_t s = 0; s < 2; s++)
        put_piece(t, (int)s + 1, streams[s], &at[s], SIZE_MAX);
    put_bundle(t, json_object_get(cell, "value"));
    if (json_is_string(trace)) {
        const char *text = json_string_value(trace);
        size_t len = json_string_length(trace);

        put(t, 2, text, len);
        if (len > 0 && text[len - 1] != '\n')
            put(t, 2, "\n", 1);
    }
    if (status_of(cell) == STATUS_TIMEOUT)
        say("timeout");
}

/* Runs a cell and shows it: its exit status, or -1. */
static int run_cell(struct talk *t, const char *code, size_t len,
                    struct vial_error *err)
{
    auto_json json_t *body = json_pack("{s:s%}", "code", code, len);
    auto_json json_t *cell = NULL;
    auto_str struct str target = { 0 };
    auto_str struct str said = { 0 };
    auto_free char *text = NULL;

    if (!body)
        return fail(err, VIAL_E_VALUE, "the code is not UTF-8, or holds NUL");
    for (size_t i = 0; i < t->cli->options.given_count; i++)
        if (t->cli->options.given[i].field &&
            str_eq(t->cli->options.given[i].field->name, "timeout"))
            (void)json_object_set_new(body, "timeout",
                                      json_string(t->cli->options.given[i].value));
    text = json_dumps(body, JSON_COMPACT);
    str_printf(&target, "%s/run", t->target.data);
    if (!text || !str_ok(&target))
        return fail_memory(err);
    if (daemon_call(t->daemon,
                    &(struct daemon_ask){ "POST", target.data, text, NULL, -1 }, &said,
                    err) < 0)
        return -1;
    cell = json_loadb(said.data ? said.data : "", said.len, JSON_ALLOW_NUL, NULL);
    if (!cell)
        return fail(err, VIAL_E_INTERNAL, "the daemon's answer is not JSON");
    if (cli_flag(t->cli, "json"))
        (void)print_line(said.data);
    else
        put_cell(t, cell);
    return status_of(cell);
}

static int end(const struct daemon *d, const char *name, struct vial_error *err)
{
    auto_free char *session = strndup(name, strcspn(name, "/"));
    auto_str struct str target = { 0 };

    str_puts(&target, "/v1/sessions/");
    http_escape(&target, session ? session : "");
    return str_ok(&target) ? verb_do(d, "DELETE", target.data, NULL, err)
                           : fail_memory(err);
}

/* Ends what is our own, and then us, as the signal would have. */
static void end_by(const struct talk *t, int number)
{
    struct vial_error ignored = { 0 };
    sigset_t one;

    (void)end(t->daemon, t->own, &ignored);
    (void)sigemptyset(&one);
    (void)sigaddset(&one, number);
    (void)raise(number);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

/* Ctrl-C is for the cell; whoever waits for it has it blocked. */
static void *take_signals(void *context)
{
    struct talk *t = context;
    int number;

    while (sigwait(&t->signals, &number) == 0 && !atomic_load(&t->over)) {
        auto_str struct str target = { 0 };
        struct vial_error ignored = { 0 };

        if (number != SIGINT)
            end_by(t, number);
        str_printf(&target, "%s/interrupt", t->target.data);
        if (str_ok(&target))
            (void)verb_do(t->daemon, "POST", target.data, NULL, &ignored);
    }
    return NULL;
}

/* Those that end us are taken where something has to end with us, unless whoever
 * started us had them ignored (nohup). */
static void block_signals(struct talk *t, bool ending)
{
    static const int ends[] = { SIGHUP, SIGTERM };

    (void)sigemptyset(&t->signals);
    (void)sigaddset(&t->signals, SIGINT);
    for (size_t i = 0; ending && i < 2; i++) {
        struct sigaction is = { 0 };

        if (sigaction(ends[i], NULL, &is) == 0 && is.sa_handler != SIG_IGN)
            (void)sigaddset(&t->signals, ends[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, &t->signals, NULL);
}

/* Whether a bracket or a quote is open at the end; brackets within quotes are text. */
static bool is_open(const char *text, size_t len)
{
    char quote = '\0';
    int open = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\')
            i++;
        else if (quote && text[i] == quote)
            quote = '\0';
        else if (!quote && strchr("'\"`", text[i]))
            quote = text[i];
        else if (!quote)
            open += (strchr("([{", text[i]) != NULL) - (strchr(")]}", text[i]) != NULL);
    }
    return open > 0 || quote;
}

/* Whether a line begins a block, which an empty line ends: something is open, the line
 * ends in ':' or '\', or it is a decorator or a magic of cells. */
static bool is_unfinished(const struct str *cell)
{
    size_t len = cell->len;

    while (len > 0 && strchr(" \t\n", cell->data[len - 1]))
        len--;
    return is_open(cell->data, len) ||
           (len > 0 && strchr(":\\", cell->data[len - 1])) || cell->data[0] == '@' ||
           (cell->data[0] == '%' && cell->data[1] == '%');
}

/* 1: a cell, as far as it came; 0: the end. */
static int read_cell(struct str *cell)
{
    auto_free char *line = NULL;
    size_t size = 0;
    ssize_t n;

    (void)fputs("> ", stderr);
    while ((n = getline(&line, &size, stdin)) > 0 && cell->len < CELL_MAX) {
        bool empty = n == 1 && line[0] == '\n';
        bool first = cell->len == 0;

        str_add(cell, line, (size_t)n);
        if (!str_ok(cell) || empty || (first && !is_unfinished(cell)))
            break;
        (void)fputs(". ", stderr);
    }
    return cell->len > 0 && str_ok(cell);
}

/* Cells from a terminal, until its end. */
static int converse(struct talk *t, struct vial_error *err)
{
    int status = STATUS_OK;

    for (;;) {
        auto_str struct str cell = { 0 };

        if (!read_cell(&cell))
            break;
        status = run_cell(t, cell.data, cell.len, err);
        if (status < 0)
            say_error(err);
        fail_clear(err);
    }
    (void)fputc('\n', stderr);
    return STATUS_OK;
}

/* What was given, or what comes from standard input. */
static int run_given(struct talk *t, const char *code, struct vial_error *err)
{
    struct blob text = { 0 };
    int rc;

    if (!code && isatty(STDIN_FILENO))
        return converse(t, err);
    if (code && code[0] != '@' && strcmp(code, "-") != 0)
        return run_cell(t, code, strlen(code), err);
    rc = code && code[0] == '@'
             ? io_read_file(code + 1, CELL_MAX, &text, err)
             : io_read_fd(STDIN_FILENO, "standard input", CELL_MAX, &text, err);
    if (rc == 0)
        rc = run_cell(t, text.data ? text.data : "", text.len, err);
    blob_done(&text);
    return rc;
}

/* *NAME is that of the new one. */
static int begin(struct cli *cli, const struct daemon *d, struct str *name,
                 struct vial_error *err)
{
    const char *language = cli_operand(cli, 1);
    auto_json json_t *body = json_pack("{s:s}", "language", language);
    auto_json json_t *session = NULL;
    auto_free char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    auto_str struct str said = { 0 };
    auto_str struct str target = { 0 };
    const char *id;

    if (!text)
        return fail_memory(err);
    if (verb_start(cli, d, &said, err) < 0)
        return -1;
    session = json_loads(said.data, 0, NULL);
    id = json_string_value(json_object_get(session, "id"));
    str_printf(&target, "/v1/sessions/%s/contexts", id ? id : "");
    str_printf(name, "%s/%s", id ? id : "", language);
    if (!str_ok(&target) || !str_ok(name))
        return fail_memory(err);
    if (verb_do(d, "POST", target.data, text, err) == 0)
        return 0;
    target.len -= strlen("/contexts");
    target.data[target.len] = '\0';
    (void)verb_do(d, "DELETE", target.data, NULL, &(struct vial_error){ 0 });
    return -1;
}

static int start(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_str struct str name = { 0 };

    return begin(cli, d, &name, err) < 0 ? -1 : print_line(name.data);
}

/* Runs cells in the one with NAME, while a thread takes the signals. */
static int talk_to(struct talk *t, const char *name, struct vial_error *err)
{
    pthread_t thread;
    int status;

    if (find_target(name, &t->target, err) < 0)
        return -1;
    errno = thread_start(&thread, THREAD_STACK, take_signals, t);
    if (errno != 0)
        return fail_sys(err, "start a thread");
    status = run_given(t, cli_operand(t->cli, 2), err);
    atomic_store(&t->over, true);
    (void)pthread_kill(thread, SIGINT);
    (void)pthread_join(thread, NULL);
    return status;
}

static int run_in(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    struct talk t = { .cli = cli, .daemon = d };
    int status;

    block_signals(&t, false);
    status = talk_to(&t, cli_operand(cli, 1), err);
    str_done(&t.target);
    return status;
}

static int stop(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    return end(d, cli_operand(cli, 1), err);
}

/* One of its own, for as long as this lasts. */
static int shell(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    struct talk t = { .cli = cli, .daemon = d };
    auto_str struct str name = { 0 };
    struct vial_error ignored = { 0 };
    int status;

    block_signals(&t, true);
    if (begin(cli, d, &name, err) < 0)
        return -1;
    t.own = name.data;
    status = talk_to(&t, name.data, err);
    (void)end(d, name.data, &ignored);
    str_done(&t.target);
    return status;
}

static const struct verb verbs[] = {
    { "shell", "LANG [CODE]", 1, shell, VERB_STARTS },
    { "start", "LANG", 1, start, VERB_STARTS },
    { "run", "NAME [CODE]", 1, run_in, " timeout " },
    { "stop", "NAME", 1, stop },
    { "list", "", 0, verb_list },
    { 0 },
};

static int run(struct cli *cli)
{
    return verb_run(cli, verbs, "context");
}

static const struct flag flags[] = {
    { "idle", "DURATION", "start, shell: end it when nobody uses it for so long." },
    { "lease", "DURATION", "start, shell: end it anyhow after this." },
    DAEMON_FLAG_ROW,
    FLAG_ROW_JSON,
    { 0 },
};

static const char *const without[] = { "language", "code",  "command", "args",
                                       "outputs",  "stdin", "end_on",  NULL };

extern const struct command command_context;
const struct command command_context = {
    .name = "context",
    .operands = "VERB …",
    .words = "shell|start|run|stop|list",
    .summary = "an interpreter that remembers, like a notebook's",
    .text =
        "LANG is python, node, bash or r. Each has a session of its own in the daemon;\n"
        "when none runs, a private one is started, as by 'vial session'. 'start' and\n"
        "'shell' take the flags of a request, 'run' takes --timeout. CODE is a cell: text,\n"
        "'-' for standard input, '@FILE'.\n"
        "Without CODE cells are read from the terminal until its end (Ctrl-D); a line that\n"
        "leaves something open goes on until an empty one. Ctrl-C interrupts a cell.\n"
        "\n"
        "  shell LANG [CODE]   one for as long as this lasts\n"
        "  start LANG          prints its name\n"
        "  run NAME [CODE]     what earlier cells defined is there\n"
        "  stop NAME\n"
        "  list                all sessions; a name is SESSION/LANG\n"
        "\n"
        "Status: 0; 1 when the cell raised an error, 124 at its time-out, 130 interrupted.",
    .examples = "vial context shell python\n"
                "name=$(vial context start python)\n"
                "vial context run $name 'x = 6'\n"
                "vial context run $name 'x * 7'\n"
                "vial context stop $name",
    .flags = flags,
    .shows_status = true,
    .takes_fields = true,
    .without = without,
    .max_operands = 3,
    .run = run,
};
