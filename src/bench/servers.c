/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Servers as their clients meet them: viald on a unix socket, and `vial mcp` over its
 * standard streams, each over a connection that stays. Both have interpreters wait, and
 * are asked by bytes that were made before.
 */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/io.h"
#include "bench/bench.h"
#include "cli/daemon.h"
#include "http/http.h"

#define START_MS    10000
#define READY_MS    120000
#define LOOK_MS     10
#define REFILL_MS   20 /* longer than a refill takes */
#define ANSWER_MAX  (64u << 10)
#define CLIENTS_MAX 64

struct bench_server {
    bool mcp;
    pid_t pid;
    char dir[32], socket[48], config[48];
    struct str question; /* of the daemon: a whole request; of MCP: the arguments */
    pthread_mutex_t lock;
    int idle[CLIENTS_MAX]; /* of the daemon: connections that nobody uses */
    size_t idle_count;
    pthread_mutex_t writing, reading; /* of MCP, whose clients share one connection */
    FILE *in, *out;
    unsigned asked;
};

static void sleep_ms(long ms)
{
    const struct timespec t = { .tv_nsec = ms * 1000000 };

    (void)nanosleep(&t, NULL);
}

static int connect_to(const struct bench_server *s)
{
    struct vial_error err;
    int fd = http_unix_connect(s->socket, START_MS, -1, &err);

    if (fd >= 0)
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

static int take_connection(struct bench_server *s)
{
    int fd = -1;

    (void)pthread_mutex_lock(&s->lock);
    if (s->idle_count > 0)
        fd = s->idle[--s->idle_count];
    (void)pthread_mutex_unlock(&s->lock);
    return fd < 0 ? connect_to(s) : fd;
}

static void give_connection(struct bench_server *s, int fd)
{
    (void)pthread_mutex_lock(&s->lock);
    if (s->idle_count < CLIENTS_MAX)
        s->idle[s->idle_count++] = fd;
    else
        (void)close(fd);
    (void)pthread_mutex_unlock(&s->lock);
}

/* Its head says how long a body there is. */
static bool is_whole(const char *text, size_t len)
{
    const char *end = strstr(text, "\r\n\r\n");
    const char *length = strstr(text, "Content-Length: ");

    return end && length && length < end &&
           len >= (size_t)(end + 4 - text) + strtoul(length + 16, NULL, 10);
}

/* The answer, malloc'ed, or NULL. */
static char *ask_daemon(struct bench_server *s)
{
    auto_fd int fd = take_connection(s);
    auto_free char *answer = malloc(ANSWER_MAX);
    size_t len = 0;

    if (fd < 0 || !answer || io_write_all(fd, s->question.data, s->question.len) < 0)
        return NULL;
    do {
        ssize_t n = read(fd, answer + len, ANSWER_MAX - 1 - len);

        if (n <= 0)
            return NULL;
        len += (size_t)n;
        answer[len] = '\0';
    } while (!is_whole(answer, len));
    give_connection(s, fd_take(&fd));
    return ptr_take(&answer);
}

/* Reads the answer that comes first, whoever asked: each client waits for one. */
static char *read_line(struct bench_server *s)
{
    auto_free char *line = NULL;
    size_t size = 0;
    ssize_t len = 0;

    (void)pthread_mutex_lock(&s->reading);
    len = getline(&line, &size, s->in);
    (void)pthread_mutex_unlock(&s->reading);
    return len > 0 ? ptr_take(&line) : NULL;
}

static char *ask_mcp(struct bench_server *s)
{
    bool good = false;

    (void)pthread_mutex_lock(&s->writing);
    good = fprintf(s->out,
                   "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\","
                   "\"params\":{\"name\":\"run_code\",\"arguments\":%s}}\n",
                   ++s->asked, s->question.data) > 0 &&
           fflush(s->out) == 0;
    (void)pthread_mutex_unlock(&s->writing);
    return good ? read_line(s) : NULL;
}

enum bench_answer bench_server_ask(struct bench_server *s)
{
    auto_free char *answer = s->mcp ? ask_mcp(s) : ask_daemon(s);

    if (!answer || (!strstr(answer, "\"verdict\": \"ok\"") &&
                    !strstr(answer, "\"verdict\":\"ok\"")))
        return BENCH_BAD;
    return strstr(answer, "\"warm\"") ? BENCH_HIT : BENCH_COLD;
}

void bench_server_rest(void)
{
    sleep_ms(REFILL_MS);
}

static int write_config(struct bench_server *s, const char *language,
                        struct vial_error *err)
{
    auto_str struct str text = { 0 };
    auto_fd int fd = -1;

    (void)snprintf(s->dir, sizeof(s->dir), "/tmp/vial-bench-XXXXXX");
    if (!mkdtemp(s->dir) || chmod(s->dir, 0755) < 0) /* for whom the daemon becomes */
        return fail_sys(err, "make '%s'", s->dir);
    (void)snprintf(s->socket, sizeof(s->socket), "%s/socket", s->dir);
    (void)snprintf(s->config, sizeof(s->config), "%s/vial.yaml", s->dir);
    str_printf(&text, "serve:\n  warm: [%s]\n", language);
    fd = open(s->config, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || !str_ok(&text) || io_write_all(fd, text.data, text.len) < 0)
        return fail_sys(err, "write '%s'", s->config);
    return 0;
}

/* One that nobody ends, since we were killed, ends by itself. */
static int start_daemon(struct bench_server *s, struct vial_error *err)
{
    auto_free char *program = daemon_program();
    char address[64];
    const char *const argv[] = { "viald", "--config",    s->config, "--listen",
                                 address, "--idle-exit", "1h",      NULL };
    int64_t until_ns = clock_now_ns() + INT64_C(1000000) * START_MS;

    (void)snprintf(address, sizeof(address), "unix:%s", s->socket);
    if (!program)
        return fail_memory(err);
    if (bench_spawn(&(struct bench_child){ program, argv, -1, -1, NULL }, &s->pid) < 0)
        return fail_sys(err, "start '%s'", program);
    while (s->idle_count == 0 && s->pid > 0 && clock_now_ns() < until_ns) {
        int fd = access(s->socket, F_OK) == 0 ? connect_to(s) : -1;

        if (fd >= 0)
            give_connection(s, fd);
        else if (waitpid(s->pid, NULL, WNOHANG) != 0)
            s->pid = 0;
        else
            sleep_ms(LOOK_MS);
    }
    return s->idle_count > 0 ? 0 : fail(err, VIAL_E_DAEMON, "the daemon did not start");
}

static int greet(struct bench_server *s, struct vial_error *err)
{
    auto_free char *answer = NULL;

    if (fputs("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
              "\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{"
              "\"name\":\"bench\",\"version\":\"1\"}}}\n"
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
              s->out) >= 0 &&
        fflush(s->out) == 0)
        answer = read_line(s);
    return answer && strstr(answer, "\"result\"")
               ? 0
               : fail(err, VIAL_E_SYSTEM, "the MCP server did not start");
}

static int start_mcp(struct bench_server *s, struct vial_error *err)
{
    const char *const argv[] = { BENCH_SELF, "mcp", "--config", s->config, NULL };
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return fail_sys(err, "make a socket pair");
    auto_fd int ours = ends[0];
    auto_fd int theirs = ends[1];
    const struct bench_child child = { .program = "/proc/self/exe",
                                       .argv = argv,
                                       .out = theirs,
                                       .filter_fd = -1,
                                       .talks = true };

    if (bench_spawn(&child, &s->pid) < 0)
        return fail_sys(err, "start 'vial mcp'");
    s->in = fdopen(fcntl(ours, F_DUPFD_CLOEXEC, 3), "r");
    s->out = fdopen(fd_take(&ours), "w");
    return s->in && s->out ? greet(s, err) : fail_memory(err);
}

static int make_question(struct bench_server *s, const struct way *way)
{
    auto_str struct str body = { 0 };

    str_printf(&body, "{\"language\":\"%s\",\"code\":\"%s\"}", way->language,
               way->code);
    if (s->mcp)
        str_add(&s->question, body.data, body.len);
    else
        str_printf(&s->question,
                   "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                   "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                   body.len, body.data);
    return str_ok(&body) && str_ok(&s->question) ? 0 : -1;
}

/* Until an interpreter has waited for us. */
static int warm_up(struct bench_server *s, struct vial_error *err)
{
    int64_t until_ns = clock_now_ns() + INT64_C(1000000) * READY_MS;

    while (clock_now_ns() < until_ns) {
        enum bench_answer answer = bench_server_ask(s);

        if (answer == BENCH_HIT)
            return 0;
        if (answer == BENCH_BAD)
            break;
        bench_server_rest();
    }
    return fail(err, VIAL_E_SYSTEM, "it gave no warm run");
}

int bench_server_open(const struct way *way, struct bench_server **out,
                      struct vial_error *err)
{
    struct bench_server *s = calloc(1, sizeof(*s));

    if (!s)
        return fail_memory(err);
    *out = s; /* the caller closes what there is of it */
    s->mcp = way->kind == BENCH_MCP;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_mutex_init(&s->writing, NULL);
    (void)pthread_mutex_init(&s->reading, NULL);
    if (make_question(s, way) < 0)
        return fail_memory(err);
    if (write_config(s, way->language, err) < 0 ||
        (s->mcp ? start_mcp : start_daemon)(s, err) < 0)
        return -1;
    return warm_up(s, err);
}

void bench_server_close(struct bench_server *s)
{
    if (!s)
        return;
    while (s->idle_count > 0)
        (void)close(s->idle[--s->idle_count]);
    if (s->in)
        (void)fclose(s->in);
    if (s->out)
        (void)fclose(s->out);
    if (s->pid > 0) {
        (void)kill(s->pid, SIGTERM);
        (void)waitpid(s->pid, NULL, 0);
    }
    (void)unlink(s->config);
    (void)rmdir(s->dir);
    str_done(&s->question);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_mutex_destroy(&s->writing);
    (void)pthread_mutex_destroy(&s->reading);
    free(s);
}
