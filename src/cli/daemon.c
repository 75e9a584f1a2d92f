/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/path.h"
#include "base/sys.h"

#define CALL_MS   (INT64_C(24) * 60 * 60 * 1000)
#define START_MS  10000
#define LOOK_MS   10
#define IDLE_EXIT "60s"

/* The directory of this user's sockets, and the name of one in it. */
static int usual_path(const char *name, char *out, size_t size)
{
    const char *dir = getenv("XDG_RUNTIME_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    int len;

    if (geteuid() == 0)
        len = snprintf(out, size, "/run/vial/%s", name);
    else if (dir && dir[0] == '/')
        len = snprintf(out, size, "%s/vial/%s", dir, name);
    else
        len = snprintf(out, size, "/tmp/vial-%u/%s", (unsigned)geteuid(), name);
    return len > 0 && (size_t)len < size ? 0 : -1;
}

/* A user who can put a socket there can read what we send. So the directory must be
 * ours or root's. */
static bool is_ours(const char *path)
{
    const char *slash = strrchr(path, '/');
    auto_free char *dir = slash ? strndup(path, (size_t)(slash - path)) : NULL;
    struct stat st;

    return dir && lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
           (st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & S_IWOTH);
}

static bool answers(const char *path)
{
    struct vial_error err = { 0 };
    auto_fd int fd = http_unix_connect(path, 1000, -1, &err);

    return fd >= 0;
}

char *daemon_program(void)
{
    return path_own_program("viald");
}

/* In the child: a session of its own, with nothing of ours but the pipe for what it
 * may have to say. It serves its own user alone, whose files it has to reach: no keeper
 * stands between. */
static void become_daemon(const char *program, const char *address, int say_fd)
{
    const char *const argv[] = { program,   "--listen", address, "--log",
                                 "none",    "--keeper", "off",   "--idle-exit",
                                 IDLE_EXIT, NULL };
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (setsid() < 0 || null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
        dup2(null_fd, STDOUT_FILENO) < 0 || dup2(say_fd, STDERR_FILENO) < 0 ||
        chdir("/") < 0)
        _exit(STATUS_VIAL);
    (void)execv(program, (char *const *)(uintptr_t)argv);
    (void)dprintf(STDERR_FILENO, "%s: %s", program, sys_text(errno));
    _exit(STATUS_VIAL);
}

/* Twice forked, so that nobody has to wait for it. */
static int launch(const char *address, int *say_fd, struct vial_error *err)
{
    auto_free char *program = daemon_program();
    int ends[2];
    pid_t pid;

    if (!program)
        return fail_memory(err);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail_sys(err, "open a pipe");
    pid = fork();
    if (pid == 0) {
        pid_t inner = fork();

        if (inner == 0)
            become_daemon(program, address, ends[1]);
        _exit(inner < 0 ? STATUS_VIAL : STATUS_OK);
    }
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return fail_sys(err, "fork");
    }
    (void)waitpid(pid, NULL, 0);
    *say_fd = ends[0];
    return 0;
}

/* It says something only when it cannot start. */
static int refuse_start(int say_fd, struct vial_error *err)
{
    char text[300] = "";
    ssize_t n = read(say_fd, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    (void)fail(err, VIAL_E_DAEMON, "start the daemon: %s",
               text[0] ? text : "it ended at once");
    return fail_remedy(err, "'vial serve' shows what is wrong");
}

static int start_private(struct daemon *out, struct vial_error *err)
{
    int64_t end_ns = clock_now_ns() + INT64_C(1000000) * START_MS;
    auto_str struct str address = { 0 };
    auto_fd int say_fd = -1;

    str_printf(&address, "unix:%s", out->socket);
    if (!str_ok(&address))
        return fail_memory(err);
    if (launch(address.data, &say_fd, err) < 0)
        return -1;
    while (!answers(out->socket)) {
        struct pollfd said = { .fd = say_fd, .events = POLLIN };

        if (poll(&said, 1, LOOK_MS) > 0) {
            /* Two that were started at once: the other one has the socket. */
            if (answers(out->socket))
                break;
            return refuse_start(say_fd, err);
        }
        if (clock_now_ns() > end_ns)
            return fail(err, VIAL_E_DAEMON, "the daemon did not start within 10 s");
    }
    return 0;
}

/* The daemon has its own; a caller who thinks that others hold must be told. */
static int refuse_flag(const char *flag, struct vial_error *err)
{
    (void)fail(err, VIAL_E_USAGE,
               "'--%s' has no effect on a daemon, which has its own settings", flag);
    return fail_remedy(err, "leave it out, or give it to 'vial serve'");
}

/* One that the daemon has as well means the same to both. */
static int check_preset(const struct cli *cli, const struct daemon *d,
                        struct vial_error *err)
{
    const char *wanted = cli_flag(cli, "preset");
    auto_str struct str text = { 0 };
    auto_json json_t *said = NULL;
    const char *has;

    if (!wanted)
        return 0;
    if (daemon_call(d, &(struct daemon_ask){ "GET", "/v1/version", NULL, NULL, -1 },
                    &text, err) < 0)
        return -1;
    said = json_loadb(text.data ? text.data : "", text.len, 0, NULL);
    has = json_string_value(json_object_get(said, "preset"));
    return has && strcmp(has, wanted) == 0 ? 0 : refuse_flag("preset", err);
}

static int find_socket(const struct cli *cli, bool start, struct daemon *out,
                       struct vial_error *err)
{
    static const char *const names[] = { "vial.sock", "private.sock" };
    const char *given = cli_flag(cli, "socket");

    if (given) {
        if (strlen(given) >= sizeof(out->socket))
            return fail(err, VIAL_E_VALUE, "socket '%s' has a path that is too long",
                        given);
        (void)snprintf(out->socket, sizeof(out->socket), "%s", given);
        if (answers(given))
            return 0;
        (void)fail(err, VIAL_E_DAEMON, "no daemon answers at '%s'", given);
        return fail_remedy(err, "start one: vial serve --listen unix:%s", given);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (usual_path(names[i], out->socket, sizeof(out->socket)) < 0)
            return fail(err, VIAL_E_DAEMON, "XDG_RUNTIME_DIR is too long");
        if (is_ours(out->socket) && answers(out->socket))
            return 0;
    }
    if (start)
        return start_private(out, err);
    (void)fail(err, VIAL_E_DAEMON, "no daemon runs");
    return fail_remedy(err, "start one: vial serve");
}

int daemon_find(const struct cli *cli, bool start, struct daemon *out,
                struct vial_error *err)
{
    *out = (struct daemon){ 0 };
    if (cli_flag(cli, "config"))
        return refuse_flag("config", err);
    if (find_socket(cli, start, out, err) < 0)
        return -1;
    return check_preset(cli, out, err);
}

static void copy(char *out, size_t size, json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    (void)snprintf(out, size, "%s", text ? text : "");
}

/* A refusal is a result, too, for who wants one: it says more than its error. */
static bool is_result(const struct http_answer *a)
{
    auto_json json_t *json =
        json_loadb(a->body.data ? a->body.data : "", a->body.len, 0, NULL);

    return json_is_string(json_object_get(json, "verdict"));
}

static int take_error(const struct http_answer *a, struct vial_error *err)
{
    auto_json json_t *json =
        json_loadb(a->body.data ? a->body.data : "", a->body.len, 0, NULL);
    json_t *said = json_object_get(json, "error");

    if (!said)
        return fail(err, VIAL_E_DAEMON, "the daemon answered with status %d",
                    a->status);
    fail_clear(err);
    copy(err->code, sizeof(err->code), said, "code");
    copy(err->message, sizeof(err->message), said, "message");
    copy(err->cause, sizeof(err->cause), said, "cause");
    copy(err->remedy, sizeof(err->remedy), said, "remedy");
    return -1;
}

/* Whom a call is for, and what is told of it. */
struct calling {
    const struct daemon *daemon;
    struct daemon_said *said; /* or NULL */
};

/* How long a call may last says nothing of how long it may take to be heard. */
static int reach(const void *context, int64_t timeout_ms, int cancel_fd,
                 struct vial_error *err)
{
    const struct calling *calling = context;
    const struct daemon *d = calling->daemon;
    int64_t wait_ms = timeout_ms < START_MS ? timeout_ms : START_MS;
    int fd;

    if (d->socket[0])
        fd = http_unix_connect(d->socket, timeout_ms, cancel_fd, err);
    else
        fd = d->peer.tls ? http_dial_connect(&d->peer, wait_ms, cancel_fd, err)
                         : http_tcp_connect(&d->peer, wait_ms, cancel_fd, err);
    if (calling->said)
        calling->said->reached = fd >= 0;
    return fd;
}

/* A line of the answer's head. */
static int see_header(void *context, const char *line)
{
    static const char name[] = "retry-after:";
    struct daemon_said *said = context;
    char *end = NULL;
    unsigned long seconds;

    if (strncasecmp(line, name, sizeof(name) - 1) != 0)
        return 0;
    line += sizeof(name) - 1;
    line += strspn(line, " \t");
    seconds = strtoul(line, &end, 10);
    if (isdigit((unsigned char)line[0]) && !*end) /* a date is not looked at */
        said->retry_s = seconds < UINT_MAX ? (unsigned)seconds : UINT_MAX;
    return 0;
}

static int exchange(const struct daemon *d, const struct daemon_ask *ask,
                    http_take *take, void *context, struct http_answer *a,
                    struct vial_error *err)
{
    const struct calling calling = { d, ask->said };
    const struct http_transport via = { reach, &calling };
    const struct http_request request = {
        .method = ask->method,
        .target = ask->target,
        .host = d->host[0] ? d->host : NULL,
        .token = d->token,
        .body = ask->json,
        .archive = ask->bytes,
        .timeout_ms = CALL_MS,
        .cancel_fd = ask->cancel_fd,
        .header = ask->said ? see_header : NULL,
        .header_context = ask->said,
    };
    int rc = take ? http_stream(&via, &request, take, context, a, err)
                  : http_call(&via, &request, a, err);

    if (ask->said)
        ask->said->status = rc < 0 ? 0 : a->status;
    if (rc < 0)
        return -1;
    if (a->status < 400 || (ask->wants_result && is_result(a)))
        return 0;
    return take_error(a, err);
}

int daemon_call(const struct daemon *d, const struct daemon_ask *ask, struct str *out,
                struct vial_error *err)
{
    auto_answer struct http_answer a = { 0 };

    if (exchange(d, ask, NULL, NULL, &a, err) < 0)
        return -1;
    if (!out)
        return 0;
    str_add(out, a.body.data ? a.body.data : "", a.body.len);
    return str_ok(out) ? 0 : fail_memory(err);
}

int daemon_stream(const struct daemon *d, const struct daemon_ask *ask, http_take *take,
                  void *context, struct vial_error *err)
{
    auto_answer struct http_answer a = { 0 };

    return exchange(d, ask, take, context, &a, err);
}

int daemon_tunnel(const struct daemon *d, const char *target, int *fd,
                  struct str *first, struct vial_error *err)
{
    const struct calling calling = { d, NULL };
    const struct http_transport via = { reach, &calling };
    const struct http_request request = { .method = "GET",
                                          .target = target,
                                          .host = d->host[0] ? d->host : NULL,
                                          .token = d->token,
                                          .timeout_ms = START_MS,
                                          .cancel_fd = -1 };
    auto_answer struct http_answer a = { 0 };

    if (http_upgrade(&via, &request, &a, fd, err) < 0)
        return -1;
    if (*fd < 0)
        return take_error(&a, err);
    str_add(first, a.body.data, a.body.len);
    return 0;
}
