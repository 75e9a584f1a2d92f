/* SPDX-License-Identifier: Apache-2.0 */

/* The server over real sockets, spoken to byte by byte. */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/str.h"
#include "check.h"
#include "web/web.h"
#include "web/websocket.h"

#define WAIT_MS 120000

struct place {
    char path[64];
    struct web *web;
    sem_t entered, go, left;    /* of handlers that wait for the test */
    int last;                   /* what the last of them found */
    _Atomic int64_t left_of[3]; /* what a caller may still take, by enum web_share */
};

static void say_all(struct web_request *req)
{
    struct str out = { 0 };
    const char *x = web_header(req, "X-Mine");
    const char *q = web_query(req, "q");
    size_t len;
    const char *body = web_body(req, &len);

    str_printf(&out, "%s %s q=%s x=%s body=", web_method(req), web_path(req),
               q ? q : "-", x ? x : "-");
    str_add(&out, body, len);
    assert_int_equal(web_set_header(req, "X-Yours", "1"), 0);
    assert_int_equal(web_set_header(req, "X-Bad", "1\r\nX-More: 2"), -1);
    assert_int_equal(web_reply(req, 200, "text/plain", out.data, out.len), 0);
    assert_int_equal(web_reply(req, 200, "text/plain", out.data, out.len), -1);
    str_done(&out);
}

static void stream(struct place *p, struct web_request *req)
{
    assert_int_equal(web_start(req, 200, "text/plain"), 0);
    assert_int_equal(web_write(req, "first\n", 6), 0);
    (void)sem_wait(&p->go);
    assert_int_equal(web_write(req, "second\n", 7), 0);
    web_end(req);
}

static void flood(struct place *p, struct web_request *req)
{
    static const char block[16384];

    p->last = web_start(req, 200, "application/octet-stream");
    for (int i = 0; i < 100000 && p->last == 0; i++)
        p->last = web_write(req, block, sizeof(block));
    (void)sem_post(&p->left);
}

static void wait_for_end(struct place *p, struct web_request *req)
{
    struct pollfd gone = { .fd = web_gone_fd(req), .events = POLLIN };

    p->last = poll(&gone, 1, 0);
    (void)sem_post(&p->entered);
    if (p->last == 0)
        p->last = poll(&gone, 1, WAIT_MS);
    (void)web_reply(req, 200, "text/plain", "late", 4);
    (void)sem_post(&p->left);
}

static void sum_up(struct web_request *req)
{
    size_t len;
    const char *body = web_body(req, &len);
    struct blob again = { 0 };
    struct vial_error err = { 0 };
    char text[64];

    assert_int_equal(
        io_read_fd(web_body_fd(req), "body", (size_t)8 << 20, &again, &err), 0);
    (void)snprintf(text, sizeof(text), "%zu %s", len,
                   again.len == len && memcmp(again.data, body, len) == 0 ? "same"
                                                                          : "other");
    (void)web_reply(req, 200, "text/plain", text, strlen(text));
    blob_done(&again);
}

/* Says how much came, and why no more did. */
static void take_all(struct place *p, struct web_request *req)
{
    auto_str struct str some = { 0 };
    struct web_refusal no;
    size_t total = 0;
    bool first = true;
    char text[64];
    int rc;

    while ((rc = web_read(req, &some, &no)) > 0) {
        for (size_t i = 0; i < some.len; i++)
            assert_int_equal(some.data[i], (char)('a' + (total + i) % 26));
        total += some.len;
        some.len = 0;
        if (first)
            (void)sem_post(&p->entered);
        first = false;
    }
    if (rc == 0)
        rc = web_read(req, &some, &no); /* and again */
    p->last = rc;
    (void)snprintf(text, sizeof(text), "%zu %s", total, rc == 0 ? "all" : no.why);
    (void)web_reply(req, no.status ? no.status : 200, "text/plain", text, strlen(text));
    (void)sem_post(&p->left);
}

/* Takes nothing, until it is told to. */
static void take_later(struct place *p, struct web_request *req)
{
    (void)sem_post(&p->entered);
    (void)sem_wait(&p->go);
    take_all(p, req);
}

static void say_peer(struct web_request *req)
{
    char text[64] = "nobody";
    pid_t pid;
    uid_t uid;

    if (web_peer(req, &pid, &uid))
        (void)snprintf(text, sizeof(text), "%d %s", (int)uid,
                       pid == getpid() ? "me" : "another");
    (void)web_reply(req, 200, "text/plain", text, strlen(text));
}

/* Pings until a message comes, or the client is gone. */
static void talk(struct place *p, struct web_request *req, int answer_ms)
{
    struct web_socket *s = web_socket_open(req, 1024);
    enum web_socket_said said = WEB_SOCKET_NOTHING;
    const char *data;
    size_t len;

    assert_non_null(s);
    web_socket_ping(s, 1, answer_ms);
    while (said == WEB_SOCKET_NOTHING)
        said = web_socket_read(s, 1, &data, &len);
    p->last = (int)said;
    web_socket_close(s, 1000, "");
    (void)sem_post(&p->left);
}

static void handle(void *context, struct web_request *req)
{
    struct place *p = context;
    const char *path = web_path(req);

    if (strcmp(path, "/stream") == 0)
        stream(p, req);
    else if (strcmp(path, "/flood") == 0)
        flood(p, req);
    else if (strcmp(path, "/wait") == 0)
        wait_for_end(p, req);
    else if (strcmp(path, "/patient") == 0)
        talk(p, req, WAIT_MS);
    else if (strcmp(path, "/impatient") == 0)
        talk(p, req, 1);
    else if (strcmp(path, "/sum") == 0)
        sum_up(req);
    else if (strcmp(path, "/peer") == 0)
        say_peer(req);
    else if (strcmp(path, "/flow") == 0)
        take_all(p, req);
    else if (strcmp(path, "/flow/later") == 0)
        take_later(p, req);
    else if (strcmp(path, "/flow/never") == 0)
        (void)web_reply(req, 400, "text/plain", "no", 2);
    else if (strcmp(path, "/nothing") != 0)
        say_all(req);
}

static int bind_to(struct place *p)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void)snprintf(p->path, sizeof(p->path), "/tmp/vial-web-%d", (int)getpid());
    (void)unlink(p->path);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", p->path);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 1024), 0);
    return fd;
}

static void open_with(struct place *p, struct web_options options)
{
    struct vial_error err = { 0 };

    assert_int_equal(sem_init(&p->entered, 0, 0), 0);
    assert_int_equal(sem_init(&p->go, 0, 0), 0);
    assert_int_equal(sem_init(&p->left, 0, 0), 0);
    options.listen_fd = bind_to(p);
    options.handler = handle;
    options.context = p;
    if (web_open(&options, &p->web, &err) < 0)
        fail_msg("%s", err.message);
}

static void close_place(struct place *p)
{
    web_close(p->web);
    (void)unlink(p->path);
    (void)sem_destroy(&p->entered);
    (void)sem_destroy(&p->go);
    (void)sem_destroy(&p->left);
}

static int reach(const struct place *p)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", p->path);
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static int say(const struct place *p, const char *text)
{
    int fd = reach(p);

    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    return fd;
}

/* What comes until TEXT does, or the end. */
static char *hear(int fd, const char *text)
{
    struct str got = { 0 };
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    char buf[4096];

    while (!text || !got.data || !strstr(got.data, text)) {
        ssize_t n;

        assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
        n = read(fd, buf, sizeof(buf));
        if (n <= 0)
            break;
        str_add(&got, buf, (size_t)n);
    }
    return str_take(&got);
}

/* WANT is in what comes until TEXT, or until the end. */
static void expect_heard(int fd, const char *text, const char *want)
{
    auto_free char *got = hear(fd, text);

    if (!got || !strstr(got, want))
        fail_msg("<%s> is not in <%s>", want, got ? got : "");
}

static void expect_at(const struct place *p, const char *request, const char *status,
                      const char *body)
{
    auto_fd int fd = say(p, request);
    auto_free char *got = hear(fd, NULL);
    const char *found = strstr(got, "\r\n\r\n");

    if (strncmp(got + 9, status, 3) != 0 || (body && !strstr(got, body)))
        fail_msg("to <%s> came <%s>", request, got);
    assert_non_null(found);
}

#define HEAD "Host: here\r\nConnection: close\r\n"

static void a_request_reaches_its_handler_whole(void **state)
{
    struct place p = { 0 };

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    expect_at(&p,
              "POST /a%20b?q=x%26y HTTP/1.1\r\n" HEAD
              "X-Mine: 7\r\nContent-Length: 5\r\n\r\nhello",
              "200", "POST /a b q=x&y x=7 body=hello");
    expect_at(&p, "GET /p HTTP/1.1\r\n" HEAD "\r\n", "200", "X-Yours: 1\r\n");
    expect_at(&p,
              "POST /c HTTP/1.1\r\n" HEAD
              "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
              "200", "body=abcde");
    close_place(&p);
}

static void a_connection_serves_one_request_after_the_other(void **state)
{
    struct place p = { 0 };
    int fd;

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    fd = say(&p, "GET /one HTTP/1.1\r\nHost: here\r\n\r\n");
    expect_heard(fd, "body=", "GET /one");
    assert_int_equal(io_write_all(fd, "GET /two HTTP/1.1\r\nHost: here\r\n\r\n", 33),
                     0);
    expect_heard(fd, "body=", "GET /two");
    (void)close(fd);
    close_place(&p);
}

static void what_could_be_read_in_two_ways_is_refused(void **state)
{
    static const char *const bad[] = {
        "GET /a%00b HTTP/1.1\r\n" HEAD "\r\n",
        "GET /a%zz HTTP/1.1\r\n" HEAD "\r\n",
        "GET /a%2 HTTP/1.1\r\n" HEAD "\r\n",
        "GET /a/../b HTTP/1.1\r\n" HEAD "\r\n",
        "GET /a/%2e%2e HTTP/1.1\r\n" HEAD "\r\n",
        "GET /a?q=%00 HTTP/1.1\r\n" HEAD "\r\n",
        "GET http://other/ HTTP/1.1\r\n" HEAD "\r\n",
        "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\n" HEAD "Host: there\r\n\r\n",
        "POST / HTTP/1.1\r\n" HEAD "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\n" HEAD "Content-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\n" HEAD "Content-Length : 2\r\n\r\nab",
        "GET / HTTP/1.1\r\n" HEAD "X-Mine: a\rX-Yours: b\r\n\r\n",
        "GET / HTTP/1.1\r\n" HEAD "X-Mine: a\x1b[2J\r\n\r\n",
        "POST / HTTP/1.1\r\n" HEAD "Content-Length: 5\r\nTransfer-Encoding: "
        "chunked\r\n\r\n0\r\n\r\n",
    };
    struct place p = { 0 };

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_at(&p, bad[i], "400", NULL);
    expect_at(&p, "POST / HTTP/1.1\r\n" HEAD "Transfer-Encoding: gzip\r\n\r\n", "501",
              NULL);
    close_place(&p);
}

static void a_body_above_the_limit_is_refused(void **state)
{
    struct place p = { 0 };
    struct web_counts counts;

    (void)state;
    open_with(&p, (struct web_options){ .body_bytes = 8 });
    expect_at(&p, "POST / HTTP/1.1\r\n" HEAD "Content-Length: 9\r\n\r\n", "413",
              "VIAL-HTTP");
    expect_at(&p,
              "POST / HTTP/1.1\r\n" HEAD
              "Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n",
              "413", "VIAL-HTTP");
    expect_at(&p, "POST / HTTP/1.1\r\n" HEAD "Content-Length: 8\r\n\r\n12345678", "200",
              "body=12345678");
    web_count(p.web, &counts);
    assert_int_equal(counts.refused, 2);
    assert_int_equal(counts.requests, 3);
    close_place(&p);
}

static void a_large_body_comes_whole(void **state)
{
    struct place p = { 0 };
    size_t len = (size_t)3 << 20;
    auto_free char *body = malloc(len);
    int fd;

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    memset(body, 'x', len);
    fd = say(&p, "POST /sum HTTP/1.1\r\n" HEAD "Content-Length: 3145728\r\n\r\n");
    assert_int_equal(io_write_all(fd, body, len), 0);
    expect_heard(fd, NULL, "3145728 same");
    (void)close(fd);
    expect_at(&p, "POST /sum HTTP/1.1\r\n" HEAD "Content-Length: 3\r\n\r\nabc", "200",
              "3 same");
    expect_at(&p, "GET /sum HTTP/1.1\r\n" HEAD "\r\n", "200", "0 same");
    close_place(&p);
}

static void a_head_above_the_limit_is_refused(void **state)
{
    struct place p = { 0 };
    auto_str struct str request = { 0 };

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    str_puts(&request, "GET / HTTP/1.1\r\n" HEAD "X-Long: ");
    for (int i = 0; i < 40000; i++)
        str_putc(&request, 'a');
    str_puts(&request, "\r\n\r\n");
    expect_at(&p, request.data, "431", NULL);
    close_place(&p);
}

static void a_stream_comes_piece_by_piece(void **state)
{
    struct place p = { 0 };
    int fd;
    char *got;

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    fd = say(&p, "GET /stream HTTP/1.1\r\n" HEAD "\r\n");
    got = hear(fd, "first");
    assert_null(strstr(got, "second"));
    free(got);
    (void)sem_post(&p.go);
    expect_heard(fd, "second", "second");
    (void)close(fd);
    close_place(&p);
}

static void a_peer_on_a_unix_socket_is_known(void **state)
{
    struct place p = { 0 };
    char text[32];

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    (void)snprintf(text, sizeof(text), "%d me", (int)getuid());
    expect_at(&p, "GET /peer HTTP/1.1\r\n" HEAD "\r\n", "200", text);
    close_place(&p);
}

#define UPGRADE                                                                        \
    " HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"         \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
#define PING "\x89"
#define PONG "\x8a\x80zero"      /* masked */
#define TEXT "\x81\x81\0\0\0\0x" /* the same, by noughts */

static void a_client_that_answers_pings_stays(void **state)
{
    struct place p = { 0 };
    int fd;

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    fd = say(&p, "GET /patient" UPGRADE);
    for (int i = 0; i < 3; i++) { /* another one only after an answer */
        expect_heard(fd, PING, PING);
        assert_int_equal(io_write_all(fd, PONG, sizeof(PONG) - 1), 0);
    }
    assert_int_equal(io_write_all(fd, TEXT, sizeof(TEXT) - 1), 0);
    (void)sem_wait(&p.left);
    assert_int_equal(p.last, WEB_SOCKET_MESSAGE);
    (void)close(fd);
    close_place(&p);
}

static void a_client_that_answers_no_ping_is_gone(void **state)
{
    struct place p = { 0 };
    int fd;

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    fd = say(&p, "GET /impatient" UPGRADE);
    (void)sem_wait(&p.left);
    assert_int_equal(p.last, WEB_SOCKET_GONE);
    (void)close(fd);
    close_place(&p);
}

static void a_client_that_goes_away_is_noticed(void **state)
{
    struct place p = { 0 };
    int fd;

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    fd = say(&p, "GET /wait HTTP/1.1\r\nHost: here\r\n\r\n");
    (void)sem_wait(&p.entered);
    (void)close(fd);
    (void)sem_wait(&p.left);
    assert_int_equal(p.last, 1);
    close_place(&p);
}

static void writing_ends_when_the_client_has_gone(void **state)
{
    struct place p = { 0 };
    int fd;

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    fd = say(&p, "GET /flood HTTP/1.1\r\nHost: here\r\n\r\n");
    free(hear(fd, "octet-stream"));
    (void)close(fd);
    (void)sem_wait(&p.left);
    assert_int_equal(p.last, -1);
    close_place(&p);
}

static void one_that_does_not_read_is_given_up(void **state)
{
    struct place p = { 0 };
    int fd;

    (void)state;
    open_with(&p, (struct web_options){ .slow_s = 1, .idle_s = 2 });
    fd = say(&p, "GET /flood HTTP/1.1\r\nHost: here\r\n\r\n");
    (void)sem_wait(&p.left);
    assert_int_equal(p.last, -1);
    (void)close(fd);
    close_place(&p);
}

static void more_handlers_than_allowed_are_refused(void **state)
{
    struct place p = { 0 };
    int fd;

    (void)state;
    open_with(&p, (struct web_options){ .handlers = 1 });
    fd = say(&p, "GET /wait HTTP/1.1\r\nHost: here\r\n\r\n");
    (void)sem_wait(&p.entered);
    expect_at(&p, "GET / HTTP/1.1\r\n" HEAD "\r\n", "503", "Retry-After: 1");
    (void)close(fd);
    (void)sem_wait(&p.left);
    close_place(&p);
}

static void a_handler_that_says_nothing_is_answered_for(void **state)
{
    struct place p = { 0 };

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    expect_at(&p, "GET /nothing HTTP/1.1\r\n" HEAD "\r\n", "500", "nothing was");
    close_place(&p);
}

static void a_draining_server_finishes_and_takes_nothing_new(void **state)
{
    struct place p = { 0 };
    int fd;
    int other;

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    other = say(&p, "GET /kept HTTP/1.1\r\nHost: here\r\n\r\n");
    free(hear(other, "body="));
    fd = say(&p, "GET /stream HTTP/1.1\r\n" HEAD "\r\n");
    free(hear(fd, "first"));
    web_drain(p.web);
    assert_int_equal(reach(&p), -1);
    assert_int_equal(io_write_all(other, "GET /x HTTP/1.1\r\nHost: here\r\n\r\n", 31),
                     0);
    expect_heard(other, "going down", " 503 ");
    (void)sem_post(&p.go);
    expect_heard(fd, "second", "second");
    (void)close(fd);
    (void)close(other);
    close_place(&p);
}

static void a_retired_server_answers_who_is_connected_and_nobody_else(void **state)
{
    struct place p = { 0 };
    int fd;

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    fd = say(&p, "GET /kept HTTP/1.1\r\nHost: here\r\n\r\n");
    free(hear(fd, "body="));
    web_retire(p.web);
    assert_int_equal(reach(&p), -1);
    assert_int_equal(io_write_all(fd, "GET /x HTTP/1.1\r\nHost: here\r\n\r\n", 31), 0);
    expect_heard(fd, NULL, " 200 "); /* up to its end */
    (void)close(fd);
    close_place(&p);
}

static void closing_the_server_ends_its_handlers(void **state)
{
    struct place p = { 0 };
    int fd;

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    fd = say(&p, "GET /wait HTTP/1.1\r\nHost: here\r\n\r\n");
    (void)sem_wait(&p.entered);
    close_place(&p);
    assert_int_equal(p.last, 1);
    expect_heard(fd, NULL, "late");
    (void)close(fd);
}

/* Who says a token is a caller; there is one. */
static void find_place(void *context, const struct web_request *req,
                       struct web_place *out)
{
    struct place *p = context;

    if (web_header(req, "X-Token"))
        out->caller = p;
    else
        *out = (struct web_place){ .lane = WEB_STRANGERS,
                                   .status = 401,
                                   .why = "who is it?" };
    if (strcmp(web_path(req), "/health") == 0)
        *out = (struct web_place){ .lane = WEB_HEALTH };
    out->flows = out->caller && strncmp(web_path(req), "/flow", 5) == 0;
}

static void *no_peer(void *context, uid_t uid)
{
    (void)context;
    (void)uid;
    return NULL;
}

static bool take_share(void *context, void *caller, enum web_share share, size_t amount)
{
    struct place *p = caller;

    assert_ptr_equal(context, caller);
    if (atomic_fetch_sub(&p->left_of[share], (int64_t)amount) >= (int64_t)amount)
        return true;
    p->left_of[share] += (int64_t)amount;
    return false;
}

static void give_share(void *context, void *caller, enum web_share share, size_t amount)
{
    struct place *p = caller;

    assert_ptr_equal(context, caller);
    p->left_of[share] += (int64_t)amount;
}

static const struct web_door door = {
    .place = find_place, .peer = no_peer, .take = take_share, .give = give_share
};

#define CONNECTIONS 100
#define REQUESTS    100
#define BODIES      1000

static void open_door(struct place *p, struct web_options options)
{
    *p = (struct place){ .left_of = { CONNECTIONS, REQUESTS, BODIES } };
    options.door = &door;
    open_with(p, options);
}

/* All that callers took has come back. */
static void close_door(struct place *p)
{
    close_place(p);
    assert_int_equal(p->left_of[WEB_CONNECTIONS], CONNECTIONS);
    assert_int_equal(p->left_of[WEB_REQUESTS], REQUESTS);
    assert_int_equal(p->left_of[WEB_BODIES], BODIES);
}

#define TOKEN "X-Token: 1\r\n"

static void no_body_is_taken_before_the_caller_is_known(void **state)
{
    struct place p;

    (void)state;
    open_door(&p, (struct web_options){ 0 });
    /* Nothing of it is sent, nor waited for. */
    expect_at(&p, "POST / HTTP/1.1\r\n" HEAD "Content-Length: 1000000\r\n\r\n", "401",
              "VIAL-AUTH");
    expect_at(&p, "POST / HTTP/1.1\r\n" HEAD "Transfer-Encoding: chunked\r\n\r\n",
              "401", "who is it?");
    expect_at(&p,
              "POST / HTTP/1.1\r\n" HEAD "Expect: 100-continue\r\n"
              "Content-Length: 5\r\n\r\n",
              "401", "who is it?");
    /* A small one is passed over. */
    expect_at(&p, "POST /x HTTP/1.1\r\n" HEAD "Content-Length: 5\r\n\r\nhello", "200",
              "body=");
    expect_at(&p, "POST /x HTTP/1.1\r\n" HEAD TOKEN "Content-Length: 5\r\n\r\nhello",
              "200", "body=hello");
    close_door(&p);
}

/* Leaves the caller LEFT of SHARE, once nobody has any; the others stay as they are. */
static void leave_of(struct place *p, enum web_share share, int64_t all, int64_t left)
{
    while (p->left_of[share] != all)
        (void)poll(NULL, 0, 1);
    p->left_of[share] = left;
}

static void a_caller_takes_no_more_than_its_share(void **state)
{
    struct place p;
    int fd;

    (void)state;
    open_door(&p, (struct web_options){ 0 });
    leave_of(&p, WEB_BODIES, BODIES, 4);
    expect_at(&p, "POST / HTTP/1.1\r\n" HEAD TOKEN "Content-Length: 5\r\n\r\nhello",
              "503", "no room for the body");
    leave_of(&p, WEB_BODIES, 4, BODIES);
    leave_of(&p, WEB_CONNECTIONS, CONNECTIONS, 0);
    expect_at(&p, "GET / HTTP/1.1\r\n" HEAD TOKEN "\r\n", "503", "connections");
    expect_at(&p, "GET / HTTP/1.1\r\n" HEAD "\r\n", "200", "GET /");
    leave_of(&p, WEB_CONNECTIONS, 0, CONNECTIONS);
    leave_of(&p, WEB_REQUESTS, REQUESTS, 1);
    fd = say(&p, "GET /wait HTTP/1.1\r\n" TOKEN "Host: here\r\n\r\n");
    (void)sem_wait(&p.entered);
    expect_at(&p, "GET / HTTP/1.1\r\n" HEAD TOKEN "\r\n", "503", "too many requests");
    p.left_of[WEB_REQUESTS] += REQUESTS - 1;
    (void)close(fd);
    (void)sem_wait(&p.left);
    close_door(&p);
}

/* LEN bytes of the alphabet. */
static char *make_letters(size_t len)
{
    char *all = malloc(len);

    assert_non_null(all);
    for (size_t i = 0; i < len; i++)
        all[i] = (char)('a' + i % 26);
    return all;
}

/* The share of bodies has room for what is in hand of one, and not for a whole one. */
static void open_flow(struct place *p, struct web_options options)
{
    open_door(p, options);
    p->left_of[WEB_BODIES] = (int64_t)4 << 20;
}

static void close_flow(struct place *p)
{
    while (p->left_of[WEB_BODIES] != (int64_t)4 << 20)
        (void)poll(NULL, 0, 1);
    p->left_of[WEB_BODIES] = BODIES;
    close_door(p);
}

#define FLOW(path, length)                                                             \
    "POST " path " HTTP/1.1\r\n" HEAD TOKEN "Content-Length: " length "\r\n\r\n"

static void a_body_that_flows_is_taken_while_it_comes(void **state)
{
    const size_t len = (size_t)8 << 20;
    auto_free char *all = make_letters(len);
    struct place p;
    int fd;

    (void)state;
    open_flow(&p, (struct web_options){ 0 });
    fd = say(&p, FLOW("/flow", "8388608"));
    assert_int_equal(io_write_all(fd, all, 300000), 0);
    (void)sem_wait(&p.entered); /* the handler has some, and not all has been sent */
    assert_int_equal(io_write_all(fd, all + 300000, len - 300000), 0);
    expect_heard(fd, NULL, "8388608 all");
    (void)close(fd);
    expect_at(&p, FLOW("/flow", "3") "abc", "200", "3 all");
    expect_at(&p, FLOW("/flow", "0"), "200", "0 all");
    close_flow(&p);
}

/* As much of DATA as is taken, in COUNT looks. */
static size_t write_some(int fd, const char *data, size_t len, int count)
{
    size_t sent = 0;

    for (int i = 0; i < count && sent < len; i++) {
        ssize_t n = send(fd, data + sent, len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        sent += n > 0 ? (size_t)n : 0;
        if (n <= 0)
            (void)poll(NULL, 0, 1);
    }
    return sent;
}

static void a_client_waits_for_a_handler_that_takes_nothing(void **state)
{
    const size_t len = (size_t)8 << 20;
    auto_free char *all = make_letters(len);
    struct place p;
    size_t sent;
    int fd;

    (void)state;
    open_flow(&p, (struct web_options){ 0 });
    fd = say(&p, FLOW("/flow/later", "8388608"));
    assert_int_equal(io_write_all(fd, all, 200000), 0);
    (void)sem_wait(&p.entered);
    sent = 200000 + write_some(fd, all + 200000, len - 200000, 300);
    assert_true(sent < len / 2);
    (void)sem_post(&p.go);
    assert_int_equal(io_write_all(fd, all + sent, len - sent), 0);
    expect_heard(fd, NULL, "8388608 all");
    (void)close(fd);
    close_flow(&p);
}

static void a_flow_that_breaks_off_is_told_to_its_handler(void **state)
{
    const size_t len = (size_t)1 << 20;
    auto_free char *all = make_letters(len);
    struct place p;
    int fd;

    (void)state;
    open_flow(&p, (struct web_options){ .body_bytes = len - 1 });
    fd = say(&p, FLOW("/flow", "1000000"));
    assert_int_equal(io_write_all(fd, all, 300000), 0);
    (void)sem_wait(&p.entered);
    (void)close(fd);
    (void)sem_wait(&p.left);
    assert_int_equal(p.last, -1);
    fd = say(&p, "POST /flow HTTP/1.1\r\n" HEAD TOKEN
                 "Transfer-Encoding: chunked\r\n\r\n100000\r\n");
    assert_int_equal(io_write_all(fd, all, len), 0);
    assert_int_equal(io_write_all(fd, "\r\n0\r\n\r\n", 7), 0);
    expect_heard(fd, NULL, "too large");
    (void)close(fd);
    (void)sem_wait(&p.left);
    close_flow(&p);
}

static void a_flow_that_stops_is_given_up(void **state)
{
    auto_free char *all = make_letters(70000);
    struct place p;
    int fd;

    (void)state;
    open_flow(&p, (struct web_options){ .slow_s = 1 });
    fd = say(&p, FLOW("/flow", "1000000"));
    assert_int_equal(io_write_all(fd, all, 70000), 0);
    expect_heard(fd, NULL, "too slowly");
    (void)close(fd);
    close_flow(&p); /* once the handler has left, if it was called in time */
    assert_true(p.last <= 0);
}

static void an_answer_before_the_end_of_a_flow_waits_for_it(void **state)
{
    const size_t len = (size_t)4 << 20;
    auto_free char *all = make_letters(len);
    struct place p;
    int fd;

    (void)state;
    open_flow(&p, (struct web_options){ 0 });
    fd = say(&p, FLOW("/flow/never", "4194304"));
    assert_int_equal(io_write_all(fd, all, len), 0);
    expect_heard(fd, NULL, "400 Bad Request");
    (void)close(fd);
    close_flow(&p);
}

static void closing_the_server_ends_a_flow(void **state)
{
    auto_free char *all = make_letters(300000);
    struct place p;
    int fd;

    (void)state;
    open_flow(&p, (struct web_options){ 0 });
    fd = say(&p, FLOW("/flow", "8388608"));
    assert_int_equal(io_write_all(fd, all, 300000), 0);
    (void)sem_wait(&p.entered);
    close_place(&p);
    assert_int_equal(p.last, -1);
    (void)close(fd);
}

static void health_is_told_while_all_handlers_are_busy(void **state)
{
    struct place p;
    int fd;

    (void)state;
    open_door(&p, (struct web_options){ .handlers = 1 });
    fd = say(&p, "GET /wait HTTP/1.1\r\n" TOKEN "Host: here\r\n\r\n");
    (void)sem_wait(&p.entered);
    expect_at(&p, "GET / HTTP/1.1\r\n" HEAD TOKEN "\r\n", "503", "too many requests");
    expect_at(&p, "GET /health HTTP/1.1\r\n" HEAD "\r\n", "200", "/health");
    expect_at(&p, "GET /health HTTP/1.1\r\n" HEAD TOKEN "\r\n", "200", "/health");
    expect_at(&p, "GET /stranger HTTP/1.1\r\n" HEAD "\r\n", "200", "/stranger");
    (void)close(fd);
    (void)sem_wait(&p.left);
    close_door(&p);
}

static void the_oldest_stranger_gives_way(void **state)
{
    enum { MANY = 4 };
    struct place p;
    int known;
    int fds[MANY + 1];

    (void)state;
    open_door(&p, (struct web_options){ .strangers = MANY, .connections = 1 });
    known = say(&p, "GET /a HTTP/1.1\r\n" TOKEN "Host: here\r\n\r\n");
    expect_heard(known, "body=", "GET /a");
    for (int i = 0; i <= MANY; i++)
        fds[i] = say(&p, "GET /x HTTP/1.1\r\nX-Half: ");
    expect_heard(fds[0], NULL, ""); /* it ends */
    assert_int_equal(
        io_write_all(known, "GET /b HTTP/1.1\r\n" TOKEN "Host: h\r\n\r\n",
                     strlen("GET /b HTTP/1.1\r\n" TOKEN "Host: h\r\n\r\n")),
        0);
    expect_heard(known, "body=", "GET /b");
    for (int i = 1; i <= MANY; i++) {
        assert_int_equal(
            io_write_all(fds[i], "1\r\n" HEAD "\r\n", strlen("1\r\n" HEAD "\r\n")), 0);
        expect_heard(fds[i], NULL, "GET /x");
    }
    for (int i = 0; i <= MANY; i++)
        (void)close(fds[i]);
    (void)close(known);
    close_door(&p);
}

#define CHUNKED "Host: here\r\nTransfer-Encoding: chunked\r\n\r\n"

static void a_request_that_breaks_off_is_told_why(void **state)
{
    struct place p = { 0 };

    (void)state;
    open_with(&p, (struct web_options){ .slow_s = 1, .body_bytes = 1000 });
    expect_at(&p, "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nabc",
              "408", "too slowly");
    expect_at(&p, "POST / HTTP/1.1\r\n" CHUNKED "FFFFFFFFFFFFFFFF\r\nabc", "408",
              "too slowly");
    close_place(&p);
}

static void a_malformed_chunk_is_refused_once(void **state)
{
    static const char *const chunks[] = { "FFFFFFFFFFFFFFFFF\r\nabc", "zz\r\nabc",
                                          "-3\r\nabc", "0x3\r\nabc",
                                          "3\r\nabcdef\r\n" };
    struct place p = { 0 };

    (void)state;
    open_with(&p, (struct web_options){ 0 });
    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        auto_str struct str text = { 0 };
        auto_fd int fd = -1;
        auto_free char *got = NULL;

        str_printf(&text, "POST / HTTP/1.1\r\n" CHUNKED "%s", chunks[i]);
        fd = say(&p, text.data);
        got = hear(fd, NULL); /* until it is closed */
        assert_int_equal(strncmp(got, "HTTP/1.1 4", 10), 0);
        assert_null(strstr(got + 1, "HTTP/1.1"));
    }
    close_place(&p);
}

static void a_chunk_without_an_end_is_refused_while_it_comes(void **state)
{
    struct place p = { 0 };
    char block[4096];
    int fd;

    (void)state;
    memset(block, 'x', sizeof(block));
    open_with(&p, (struct web_options){ .body_bytes = 1000 });
    fd = say(&p, "POST / HTTP/1.1\r\n" CHUNKED "FFFFFFFFFFFFFFFF\r\n");
    while (send(fd, block, sizeof(block), MSG_NOSIGNAL) > 0)
        ;
    expect_heard(fd, NULL, " 413 ");
    (void)close(fd);
    close_place(&p);
}

static void a_chunks_extension_without_an_end_is_refused_while_it_comes(void **state)
{
    struct place p = { 0 };
    char block[4096];
    int fd;

    (void)state;
    memset(block, 'x', sizeof(block));
    open_with(&p, (struct web_options){ .slow_s = 600, .idle_s = 600 });
    fd = say(&p, "POST / HTTP/1.1\r\n" CHUNKED "4;");
    while (send(fd, block, sizeof(block), MSG_NOSIGNAL) > 0)
        ;
    expect_heard(fd, NULL, "the head of a chunk is too long");
    (void)close(fd);
    close_place(&p);
}

static void a_head_that_drips_is_cut_off(void **state)
{
    struct place p = { 0 };
    struct pollfd ready = { .events = POLLIN };
    int drops = 0;
    char c;

    (void)state;
    open_with(&p, (struct web_options){ .idle_s = 1, .slow_s = 1 });
    ready.fd = say(&p, "GET / HTTP/1.1\r\nX-Drip: ");
    while (poll(&ready, 1, 200) == 0 && drops++ < 100)
        (void)send(ready.fd, "a", 1, MSG_NOSIGNAL);
    assert_true(drops < 100);
    assert_true(read(ready.fd, &c, 1) <= 0);
    (void)close(ready.fd);
    close_place(&p);
}

static void idle_connections_hurt_nobody(void **state)
{
    enum { MANY = 2000 };
    struct place p = { 0 };
    struct rlimit files;
    struct web_counts counts;
    auto_free int *fds = calloc(MANY, sizeof(*fds));

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    open_with(&p, (struct web_options){ 0 });
    for (int i = 0; i < MANY; i++)
        assert_true((fds[i] = reach(&p)) >= 0);
    expect_at(&p, "GET /x HTTP/1.1\r\n" HEAD "\r\n", "200", "GET /x");
    web_count(p.web, &counts);
    assert_true(counts.connections >= MANY);
    assert_true(counts.handlers <= 1);
    for (int i = 0; i < MANY; i++)
        (void)close(fds[i]);
    close_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_reaches_its_handler_whole),
        cmocka_unit_test(a_connection_serves_one_request_after_the_other),
        cmocka_unit_test(what_could_be_read_in_two_ways_is_refused),
        cmocka_unit_test(a_body_above_the_limit_is_refused),
        cmocka_unit_test(a_large_body_comes_whole),
        cmocka_unit_test(a_head_above_the_limit_is_refused),
        cmocka_unit_test(a_stream_comes_piece_by_piece),
        cmocka_unit_test(a_peer_on_a_unix_socket_is_known),
        cmocka_unit_test(a_client_that_answers_pings_stays),
        cmocka_unit_test(a_client_that_answers_no_ping_is_gone),
        cmocka_unit_test(a_client_that_goes_away_is_noticed),
        cmocka_unit_test(writing_ends_when_the_client_has_gone),
        cmocka_unit_test(one_that_does_not_read_is_given_up),
        cmocka_unit_test(more_handlers_than_allowed_are_refused),
        cmocka_unit_test(a_handler_that_says_nothing_is_answered_for),
        cmocka_unit_test(a_draining_server_finishes_and_takes_nothing_new),
        cmocka_unit_test(a_retired_server_answers_who_is_connected_and_nobody_else),
        cmocka_unit_test(closing_the_server_ends_its_handlers),
        cmocka_unit_test(no_body_is_taken_before_the_caller_is_known),
        cmocka_unit_test(a_caller_takes_no_more_than_its_share),
        cmocka_unit_test(a_body_that_flows_is_taken_while_it_comes),
        cmocka_unit_test(a_client_waits_for_a_handler_that_takes_nothing),
        cmocka_unit_test(a_flow_that_breaks_off_is_told_to_its_handler),
        cmocka_unit_test(a_flow_that_stops_is_given_up),
        cmocka_unit_test(an_answer_before_the_end_of_a_flow_waits_for_it),
        cmocka_unit_test(closing_the_server_ends_a_flow),
        cmocka_unit_test(health_is_told_while_all_handlers_are_busy),
        cmocka_unit_test(the_oldest_stranger_gives_way),
        cmocka_unit_test(a_request_that_breaks_off_is_told_why),
        cmocka_unit_test(a_malformed_chunk_is_refused_once),
        cmocka_unit_test(a_chunk_without_an_end_is_refused_while_it_comes),
        cmocka_unit_test(a_chunks_extension_without_an_end_is_refused_while_it_comes),
        cmocka_unit_test(a_head_that_drips_is_cut_off),
        cmocka_unit_test(idle_connections_hurt_nobody),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
