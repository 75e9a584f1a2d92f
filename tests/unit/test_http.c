/* SPDX-License-Identifier: Apache-2.0 */

/* The client against a socket pair in which the answer already lies. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fail.h"
#include "check.h"
#include "http/http.h"
#include "http/parse.h"

struct server {
    const char *answer;
    size_t len; /* 0: strlen */
    bool stays; /* does not hang up */
    char seen[4096];
    int fd;
};

static int serve(const void *context, int64_t timeout_ms, int cancel_fd,
                 struct vial_error *err)
{
    struct server *s = (struct server *)(uintptr_t)context;
    size_t len = s->len ? s->len : strlen(s->answer);
    int ends[2];

    (void)timeout_ms;
    (void)cancel_fd;
    (void)err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(write(ends[1], s->answer, len), (ssize_t)len);
    if (!s->stays)
        assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    s->fd = ends[1];
    return ends[0];
}

static const struct http_request get = {
    .method = "GET", .target = "/x", .timeout_ms = 60000, .cancel_fd = -1
};

static int ask(struct server *s, const struct http_request *r, struct http_answer *a,
               struct vial_error *err)
{
    struct http_transport t = { .connect = serve, .context = s };
    int rc = http_call(&t, r, a, err);
    ssize_t n = read(s->fd, s->seen, sizeof(s->seen) - 1);

    s->seen[n > 0 ? n : 0] = '\0';
    (void)close(s->fd);
    return rc;
}

static void expect_body(const char *answer, int status, const char *body)
{
    struct server s = { .answer = answer };
    auto_answer struct http_answer a = { 0 };
    struct vial_error err = { 0 };

    if (ask(&s, &get, &a, &err) < 0)
        fail_msg("%s: %s", err.code, err.message);
    assert_int_equal(a.status, status);
    assert_string_equal(a.body.data ? a.body.data : "", body);
}

static void expect_failure(const char *answer, const char *text)
{
    struct server s = { .answer = answer };
    auto_answer struct http_answer a = { 0 };
    struct vial_error err = { 0 };

    assert_int_equal(ask(&s, &get, &a, &err), -1);
    assert_error(&err, text);
}

static void a_body_has_the_length_it_says(void **state)
{
    (void)state;
    expect_body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, and more", 200,
                "hello");
    expect_body("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}", 404, "{}");
    expect_body("HTTP/1.1 204 No Content\r\n\r\n", 204, "");
    expect_body("HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end");
}

static void chunks_are_put_together(void **state)
{
    (void)state;
    expect_body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                "5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nTrailer: x\r\n\r\n",
                200, "hello, world");
}

static void an_interim_answer_is_not_the_answer(void **state)
{
    (void)state;
    expect_body("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
                "1\r\n\r\nx",
                200, "x");
}

static void an_answer_that_is_cut_short_is_an_error(void **state)
{
    (void)state;
    expect_failure("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
                   "VIAL-ENGINE-DOWN read the engine's answer: the connection ended in "
                   "the middle of it");
    expect_failure("HTTP/1.1 200 OK\r\n", "VIAL-ENGINE-DOWN read the engine's answer: "
                                          "the connection ended before it came");
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad_lengths[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad_lengths) / sizeof(*bad_lengths); i++)
        expect_failure(bad_lengths[i], "VIAL-ENGINE-API read the engine's answer: its "
                                       "length cannot be told");
    expect_failure("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: "
                   "1\r\n\r\n",
                   "VIAL-ENGINE-API read the engine's answer: it has two lengths");
    expect_failure("SSH-2.0-x\r\n\r\n",
                   "VIAL-ENGINE-API read the engine's answer: it does not begin as "
                   "HTTP");
    expect_failure("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                   "VIAL-ENGINE-API read the engine's answer: a part's length is no "
                   "number");
    expect_failure("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n",
                   "VIAL-ENGINE-API read the engine's answer: a part is longer than it "
                   "says");
}

static void a_head_without_end_is_refused(void **state)
{
    struct server s = { .len = PARSE_HEAD_MAX + 4096 };
    auto_answer struct http_answer a = { 0 };
    struct vial_error err = { 0 };
    char *answer = malloc(s.len);

    (void)state;
    memset(answer, 'a', s.len);
    memcpy(answer, "HTTP/1.1 200 OK\r\n", 17);
    s.answer = answer;
    assert_int_equal(ask(&s, &get, &a, &err), -1);
    assert_error(&err,
                 "VIAL-ENGINE-API read the engine's answer: its head is too long, "
                 "or no text");
    free(answer);
}

/* covers: NFR-020-23 */
static void a_server_that_says_nothing_is_given_up(void **state)
{
    struct server s = { .answer = "HTTP/1.1", .stays = true };
    auto_answer struct http_answer a = { 0 };
    struct http_request r = get;
    struct vial_error err = { 0 };

    (void)state;
    r.timeout_ms = 200;
    assert_int_equal(ask(&s, &r, &a, &err), -1);
    assert_error(&err,
                 "VIAL-ENGINE-TIMEOUT wait for 'GET /x': no answer within 200 ms");
}

/* Readable from the start. */
static int cancelled_fd(void)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    (void)close(ends[1]);
    return ends[0];
}

static void expect_cancelled(struct server s)
{
    auto_answer struct http_answer a = { 0 };
    struct http_request r = get;
    struct vial_error err = { 0 };

    r.cancel_fd = cancelled_fd();
    r.timeout_ms = 20000;
    assert_int_equal(ask(&s, &r, &a, &err), -1);
    assert_string_equal(err.code, "VIAL-CANCELLED");
    (void)close(r.cancel_fd);
}

static void a_cancelled_call_is_given_up(void **state)
{
    (void)state;
    expect_cancelled((struct server){ .answer = "HTTP/1.1", .stays = true });
}

/* All of it lies there already, so that there is never anything to wait for. */
static void who_never_pauses_is_left_all_the_same(void **state)
{
    (void)state;
    expect_cancelled(
        (struct server){ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" });
}

/* A listener's queue of one is full: who comes then waits. */
static int listen_deaf(struct http_peer *to, int *waiting)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &at.sin_addr), 1);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *waiting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(*waiting, (const struct sockaddr *)&at, sizeof(at)), 0);
    (void)snprintf(to->host, sizeof(to->host), "127.0.0.1");
    (void)snprintf(to->port, sizeof(to->port), "%u", ntohs(at.sin_port));
    return fd;
}

static void a_connection_that_does_not_come_about_is_given_up(void **state)
{
    struct http_peer to = { 0 };
    struct vial_error err = { 0 };
    int asked[2];
    int cancel = cancelled_fd();
    int waiting = -1;
    int fd = listen_deaf(&to, &waiting);

    (void)state;
    assert_int_equal(http_tcp_connect(&to, 600000, cancel, &err), -1);
    assert_string_equal(err.code, "VIAL-CANCELLED");
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, asked), 0);
    to.asked_fd = asked[0]; /* nobody reads what it is asked */
    fail_clear(&err);
    assert_int_equal(http_dial_connect(&to, 600000, cancel, &err), -1);
    assert_string_equal(err.code, "VIAL-CANCELLED");
    (void)close(asked[0]);
    (void)close(asked[1]);
    (void)close(cancel);
    (void)close(waiting);
    (void)close(fd);
}

static void the_request_is_what_engines_expect(void **state)
{
    struct server s = { .answer = "HTTP/1.1 201 Created\r\nApi-Version: 1.43\r\n"
                                  "Content-Length: 0\r\n\r\n" };
    auto_answer struct http_answer a = { 0 };
    struct http_request r = get;

    (void)state;
    r.method = "POST";
    r.body = "{}";
    assert_int_equal(ask(&s, &r, &a, NULL), 0);
    assert_string_equal(s.seen, "POST /x HTTP/1.1\r\nHost: engine\r\nUser-Agent: "
                                "vial/" VIAL_VERSION "\r\nConnection: close\r\n"
                                "Content-Type: application/json\r\nContent-Length: "
                                "2\r\n\r\n{}");
    assert_int_equal(a.version_major, 1);
    assert_int_equal(a.version_minor, 43);
}

static void an_upgrade_gives_the_raw_connection(void **state)
{
    struct server s = { .answer = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n"
                                  "Upgrade: tcp\r\n\r\nearly",
                        .stays = true };
    struct http_transport t = { .connect = serve, .context = &s };
    auto_answer struct http_answer a = { 0 };
    int fd = -1;
    char byte = 0;

    (void)state;
    assert_int_equal(http_upgrade(&t, &get, &a, &fd, NULL), 0);
    assert_string_equal(a.body.data, "early");
    assert_int_equal(write(s.fd, "x", 1), 1);
    assert_int_equal(read(fd, &byte, 1), 1);
    (void)close(fd);
    (void)close(s.fd);
}

static void a_refused_upgrade_is_an_answer(void **state)
{
    struct server s = { .answer =
                            "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}" };
    struct http_transport t = { .connect = serve, .context = &s };
    auto_answer struct http_answer a = { 0 };
    int fd = 0;

    (void)state;
    assert_int_equal(http_upgrade(&t, &get, &a, &fd, NULL), 0);
    assert_int_equal(fd, -1);
    assert_int_equal(a.status, 404);
    assert_string_equal(a.body.data, "{}");
    (void)close(s.fd);
}

static int gather(void *context, const char *data, size_t len, struct vial_error *err)
{
    (void)err;
    str_add(context, data, len);
    return 0;
}

static void an_answer_may_come_byte_by_byte(void **state)
{
    const char *text =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        "2\r\nde\r\n0\r\n\r\n";
    struct parse p = { 0 };
    auto_str struct str body = { 0 };

    (void)state;
    for (size_t i = 0; i < strlen(text); i++)
        assert_int_equal(parse_feed(&p, text + i, 1, gather, &body, NULL), 1);
    assert_int_equal(p.state, PARSE_DONE);
    assert_string_equal(body.data, "abcde");
    parse_done(&p);
}

static void a_socket_that_is_not_there_is_told_from_one_that_is_dead(void **state)
{
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(http_unix_connect("/nonexistent/x.sock", 100, -1, &err), -1);
    assert_error(&err, "VIAL-ENGINE-MISSING connect to '/nonexistent/x.sock'");
    assert_int_equal(http_unix_connect("/dev/null", 100, -1, &err), -1);
    assert_error(&err, "VIAL-ENGINE-DOWN connect to '/dev/null'");
}

static void only_harmless_characters_stay_as_they_are(void **state)
{
    auto_str struct str out = { 0 };

    (void)state;
    http_escape(&out, "a-b._~/{\"\r\n& \xc3\xa9");
    assert_string_equal(out.data, "a-b._~%2F%7B%22%0D%0A%26%20%C3%A9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_has_the_length_it_says),
        cmocka_unit_test(chunks_are_put_together),
        cmocka_unit_test(an_interim_answer_is_not_the_answer),
        cmocka_unit_test(an_answer_that_is_cut_short_is_an_error),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_head_without_end_is_refused),
        cmocka_unit_test(a_server_that_says_nothing_is_given_up),
        cmocka_unit_test(a_cancelled_call_is_given_up),
        cmocka_unit_test(who_never_pauses_is_left_all_the_same),
        cmocka_unit_test(a_connection_that_does_not_come_about_is_given_up),
        cmocka_unit_test(the_request_is_what_engines_expect),
        cmocka_unit_test(an_upgrade_gives_the_raw_connection),
        cmocka_unit_test(a_refused_upgrade_is_an_answer),
        cmocka_unit_test(an_answer_may_come_byte_by_byte),
        cmocka_unit_test(a_socket_that_is_not_there_is_told_from_one_that_is_dead),
        cmocka_unit_test(only_harmless_characters_stay_as_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
