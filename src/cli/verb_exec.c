/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/events.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/verb.h"
#include "cli/watch_run.h"
#include "model/result.h"

#define STDIN_PIECE (32u << 10)

/* A program that is being followed. */
struct followed {
    const struct cli *cli;
    const struct daemon *daemon;
    int signals; /* those that end us */
    struct text_safe safe[2];
    struct vial_result end;
    bool ended;
};

static int write_out(struct followed *f, int stream, const struct blob *data,
                     struct vial_error *err)
{
    int fd = stream == 1 ? STDOUT_FILENO : STDERR_FILENO;
    bool raw = cli_flag(f->cli, "raw") || cli_flag(f->cli, "tty");
    int rc = raw ? io_write_all(fd, data->data, data->len)
                 : print_bytes(fd, &f->safe[stream - 1], data->data ? data->data : "",
                               data->len);

    return rc < 0 ? fail_sys_rc(err, rc, "write output") : 0;
}

static enum vial_verdict verdict_of(const char *name)
{
    for (size_t i = 0; name && result_verdicts[i]; i++)
        if (strcmp(result_verdicts[i], name) == 0)
            return (enum vial_verdict)i;
    return VIAL_FAILED;
}

static int signal_of(const char *name)
{
    for (int i = 1; name && i < 65; i++) {
        const char *known = vial_signal_name(i);

        if (known && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

static void take_end(struct followed *f, json_t *object)
{
    json_t *code = json_object_get(object, "exit_code");

    f->end.verdict = verdict_of(json_string_value(json_object_get(object, "verdict")));
    f->end.exit_code = json_is_integer(code) ? (int)json_integer_value(code) : -1;
    f->end.signal = signal_of(json_string_value(json_object_get(object, "signal")));
    remote_error(&f->end.error, json_object_get(object, "error"));
    f->ended = !json_is_true(json_object_get(object, "running"));
}

static int see(void *context, const char *event, json_t *object, struct vial_error *err)
{
    struct followed *f = context;
    struct blob data = { 0 };
    int stream = events_output(event, object, &data);
    int rc = 0;

    if (stream)
        rc = write_out(f, stream, &data, err);
    else if (strcmp(event, "exit") == 0)
        take_end(f, object);
    else if (strcmp(event, "gap") == 0)
        say("%lld bytes of output are lost",
            (long long)json_integer_value(json_object_get(object, "bytes")));
    blob_done(&data);
    return rc;
}

/* Before any thread is started, each of which would be killed by what it does not
 * block, and we with it. */
static int open_interrupts(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* We were told to stop, and so is the program. */
static int interrupt(struct followed *f, const char *target, struct vial_error *err)
{
    struct signalfd_siginfo info;
    auto_str struct str to = { 0 };

    if (read(f->signals, &info, sizeof(info)) != sizeof(info))
        return -1;
    str_printf(&to, "%s/signal", target);
    fail_clear(err);
    (void)verb_do(f->daemon, "POST", to.data, "{\"signal\":\"KILL\",\"tree\":true}",
                  err);
    return STATUS_SIGNAL + (int)info.ssi_signo;
}

static int follow_exec(struct followed *f, const char *target, const char *query,
                       struct vial_error *err)
{
    auto_events struct events events = { .see = see, .context = f };
    auto_str struct str attach = { 0 };
    struct daemon_ask ask = { "GET", NULL, NULL, NULL, f->signals };

    str_printf(&attach, "%s/attach?stream=ndjson%s", target, query);
    if (!str_ok(&attach))
        return fail_memory(err);
    ask.target = attach.data;
    if (daemon_stream(f->daemon, &ask, events_take, &events, err) < 0)
        return fail_is(err, VIAL_E_CANCELLED) ? interrupt(f, target, err) : -1;
    if (!f->ended)
        return fail(err, VIAL_E_DAEMON, "the daemon ended before the program");
    if (f->end.verdict == VIAL_TIMEOUT)
        say("timeout");
    else if (f->end.error.code[0])
        say_error(&f->end.error);
    return watch_run_status(&f->end);
}

/* Standard input goes to the program from a thread of its own, and so do changes of
 * the terminal's size. */
struct feeding {
    const struct daemon *daemon;
    char target[256];
};

static void *feed(void *context)
{
    const struct feeding *f = context;
    static const char end[] = "?close=1";
    auto_str struct str last = { 0 };
    char buf[STDIN_PIECE];
    struct vial_error err = { 0 };
    ssize_t n;

    while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0 ||
           (n < 0 && errno == EINTR)) {
        const struct blob bytes = { buf, n > 0 ? (size_t)n : 0 };

        if (n > 0 &&
            daemon_call(f->daemon,
                        &(struct daemon_ask){ "POST", f->target, NULL, &bytes, -1 },
                        NULL, &err) < 0)
            return NULL;
    }
    str_printf(&last, "%s%s", f->target, end);
    (void)verb_do(f->daemon, "POST", last.data, NULL, &err);
    return NULL;
}

/* Of F, which lasts as long as we do; WHAT is the last part of where it is sent. */
static void start_feeding(struct feeding *f, const struct followed *to,
                          const char *target, const char *what, void *(*run)(void *))
{
    pthread_t thread;

    f->daemon = to->daemon;
    (void)snprintf(f->target, sizeof(f->target), "%s/%s", target, what);
    /* Not base/thread.h's: one that reads a terminal in the background must be stopped,
     * and we with it, so that its signals are not blocked. */
    if (pthread_create(&thread, NULL, run, f) == 0)
        (void)pthread_detach(thread);
}

static void add_given(const struct cli *cli, json_t *body)
{
    json_t *env = json_object();

    for (size_t i = 0; i < cli->options.given_count; i++) {
        const struct given *g = &cli->options.given[i];
        const char *name = g->field ? g->field->name : "";
        size_t len = strcspn(g->value, "=");

        if (strcmp(name, "timeout") == 0 || strcmp(name, "cwd") == 0)
            (void)json_object_set_new(body, name, json_string(g->value));
        else if (strcmp(name, "env") == 0 && g->value[len])
            (void)json_object_setn_new(env, g->value, len,
                                       json_string(g->value + len + 1));
    }
    (void)json_object_set_new(body, "env", env);
}

static void add_terminal(json_t *body)
{
    struct winsize size = { 0 };

    (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
    (void)json_object_set_new(body, "rows",
                              json_integer(size.ws_row ? size.ws_row : 24));
    (void)json_object_set_new(body, "columns",
                              json_integer(size.ws_col ? size.ws_col : 80));
}

/* The program's terminal follows the size of ours; whoever waits for the signal has it
 * blocked. */
static void *follow_window(void *context)
{
    const struct feeding *f = context;
    struct vial_error err = { 0 };
    sigset_t set;
    int number;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGWINCH);
    while (sigwait(&set, &number) == 0) {
        auto_json json_t *body = json_object();
        auto_free char *text = NULL;

        add_terminal(body);
        text = json_dumps(body, JSON_COMPACT);
        if (text)
            (void)verb_do(f->daemon, "POST", f->target, text, &err);
    }
    return NULL;
}

static void block_window(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGWINCH);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* SAID is the daemon's answer, TARGET where the program is found from then on. */
static int begin(struct cli *cli, const struct daemon *d, bool live, struct str *target,
                 struct str *said, struct vial_error *err)
{
    auto_json json_t *body = json_pack("{s:[], s:b}", "argv", "stdin_live", live);
    json_t *argv = json_object_get(body, "argv");
    auto_json json_t *answer = NULL;
    auto_free char *text = NULL;

    if (verb_target(cli, "/exec", target, err) < 0)
        return -1;
    for (size_t i = 2; cli_operand(cli, i); i++)
        (void)json_array_append_new(argv, json_string(cli_operand(cli, i)));
    if (!cli_operand(cli, 2)) { /* what the session's image would start */
        (void)json_object_del(body, "argv");
        (void)json_object_set_new(body, "entrypoint", json_true());
    }
    add_given(cli, body);
    if (cli_flag(cli, "tty"))
        add_terminal(body);
    text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return fail_memory(err);
    if (daemon_call(d, &(struct daemon_ask){ "POST", target->data, text, NULL, -1 },
                    said, err) < 0)
        return -1;
    answer = json_loads(said->data, 0, NULL);
    str_printf(target, "/%lld",
               (long long)json_integer_value(json_object_get(answer, "exec")));
    return str_ok(target) ? 0 : fail_memory(err);
}

/* The program's terminal does the rest: ours only passes keys on. */
static bool make_raw(struct termios *before)
{
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, before) < 0)
        return false;
    raw = *before;
    cfmakeraw(&raw);
    return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static int follow_fed(struct followed *f, const char *target, bool live, bool tty,
                      struct vial_error *err)
{
    struct feeding input;
    struct feeding window;
    struct termios before;
    bool raw = tty && isatty(STDIN_FILENO) && make_raw(&before);
    int status;

    if (live)
        start_feeding(&input, f, target, "stdin", feed);
    if (raw)
        start_feeding(&window, f, target, "resize", follow_window);
    status = follow_exec(f, target, "", err);
    if (raw)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return status;
}

int verb_exec(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_fd int signals = open_interrupts();
    struct followed f = { .cli = cli, .daemon = d, .signals = signals };
    auto_str struct str target = { 0 };
    auto_str struct str said = { 0 };
    bool detach = cli_flag(cli, "detach") != NULL;
    bool tty = cli_flag(cli, "tty") != NULL;
    bool live = !detach && (tty || !isatty(STDIN_FILENO));

    if (tty)
        block_window(); /* before its size is read: no change is missed */
    if (begin(cli, d, live, &target, &said, err) < 0)
        return -1;
    if (detach && cli_flag(cli, "json"))
        return print_line(said.data);
    if (detach)
        return print_line(strrchr(target.data, '/') + 1);
    return follow_fed(&f, target.data, live, tty, err);
}

int verb_attach(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    auto_fd int signals = open_interrupts();
    struct followed f = { .cli = cli, .daemon = d, .signals = signals };
    auto_str struct str target = { 0 };
    auto_str struct str query = { 0 };
    static const char *const offsets[] = { "stdout", "stderr" };

    if (verb_target(cli, "/exec/", &target, err) < 0)
        return -1;
    http_escape(&target, cli_operand(cli, 2));
    str_puts(&query, "");
    for (size_t i = 0; i < 2; i++)
        if (cli_flag(cli, offsets[i])) {
            str_printf(&query, "&%s=", offsets[i]);
            http_escape(&query, cli_flag(cli, offsets[i]));
        }
    if (!str_ok(&target) || query.failed)
        return fail_memory(err);
    return follow_exec(&f, target.data, query.data ? query.data : "", err);
}

static void add_number(struct table *t, json_t *number)
{
    char text[24] = "-";

    if (json_is_integer(number))
        (void)snprintf(text, sizeof(text), "%lld",
                       (long long)json_integer_value(number));
    table_add(t, text);
}

int verb_ps(struct cli *cli, const struct daemon *d, struct vial_error *err)
{
    static const char *const heads[] = { "PROGRAM", "PID", "STATE", "EXIT" };
    struct table t = { .columns = 4 };
    auto_json json_t *all = NULL;
    auto_str struct str target = { 0 };
    auto_str struct str said = { 0 };

    if (verb_target(cli, "/exec", &target, err) < 0 ||
        daemon_call(d, &(struct daemon_ask){ "GET", target.data, NULL, NULL, -1 },
                    &said, err) < 0)
        return -1;
    if (cli_flag(cli, "json"))
        return print_line(said.data);
    all = json_loads(said.data, 0, NULL);
    for (size_t i = 0; i < 4; i++)
        table_add(&t, heads[i]);
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *one = json_array_get(all, i);
        const char *verdict = json_string_value(json_object_get(one, "verdict"));

        add_number(&t, json_object_get(one, "exec"));
        add_number(&t, json_object_get(one, "pid"));
        table_add(&t, verdict ? verdict : "running");
        add_number(&t, json_object_get(one, "exit_code"));
    }
    return table_print(&t);
}
