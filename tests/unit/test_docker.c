/* SPDX-License-Identifier: Apache-2.0 */

/* What the docker driver makes of an engine's answers; the engine is a socket pair
 * in which the answers lie. covers: NFR-020-41 NFR-020-47 */

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/owner.h"
#include "check.h"
#include "driver/docker/containers.h"
#include "driver/docker/docker.h"
#include "driver/docker/engine_api.h"
#include "driver/docker/foreign_guest.h"
#include "driver/docker/image.h"
#include "driver/docker/mux.h"

#define CALLS 8

/* Answers each call with the next of its texts. */
struct engine {
    const char *answers[CALLS];
    unsigned calls;
    char seen[CALLS][512]; /* the request's first line, filled by finish */
    int fds[CALLS];
};

static int serve(const void *context, int64_t timeout_ms, int cancel_fd,
                 struct vial_error *err)
{
    struct engine *e = (struct engine *)(uintptr_t)context;
    const char *answer = e->answers[e->calls];
    int ends[2];

    (void)timeout_ms;
    (void)cancel_fd;
    if (!answer)
        return fail(err, VIAL_E_ENGINE_DOWN, "connect to '/x'");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(write(ends[1], answer, strlen(answer)), (ssize_t)strlen(answer));
    assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    e->fds[e->calls++] = ends[1];
    return ends[0];
}

static struct api api_on(struct engine *e)
{
    return (struct api){ .transport = { .connect = serve, .context = e } };
}

static struct api api_patient(struct engine *e)
{
    struct api api = api_on(e);

    api.retries = 2;
    api.retry_ms = 1;
    return api;
}

static void finish(struct engine *e)
{
    for (unsigned i = 0; i < e->calls; i++) {
        ssize_t n = read(e->fds[i], e->seen[i], sizeof(e->seen[i]) - 1);

        e->seen[i][n > 0 ? n : 0] = '\0';
        e->seen[i][strcspn(e->seen[i], "\r")] = '\0';
        (void)close(e->fds[i]);
    }
}

#define OK_JSON               "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\n\r\n"
#define NOTHING               "HTTP/1.1 204 No Content\r\n\r\n"
#define REFUSED(status, text) "HTTP/1.1 " status " X\r\n\r\n{\"message\":\"" text "\"}"

static void expect_error(const char *answer, const char *text, const char *remedy)
{
    struct engine e = { .answers = { answer } };
    struct api api = api_on(&e);
    struct api_call call = {
        .method = "POST", .target = "/x", .about = "do it", .object = "img:1"
    };
    struct vial_error err = { 0 };

    assert_int_equal(api_do(&api, &call, NULL, &err), -1);
    assert_error(&err, text);
    assert_string_equal(err.remedy, remedy);
    finish(&e);
}

/* covers: FR-020-49 NFR-020-16 NFR-020-17 */
static void each_refusal_is_told_from_the_others(void **state)
{
    (void)state;
    expect_error(REFUSED("404", "No such image: img:1"),
                 "VIAL-IMAGE do it: there is no image 'img:1' here",
                 "run 'vial image pull img:1'");
    expect_error(REFUSED("409", "Conflict. The name is already in use by y"),
                 "VIAL-NAME-TAKEN do it: the name 'img:1' is taken", "");
    expect_error(
        REFUSED("500", "write /var/x: no space left on device"),
        "VIAL-ENGINE-SPACE do it: the engine has no space left",
        "run 'vial image prune', or free space in the engine's data directory");
    expect_error(REFUSED("500", "bind: address already in use"),
                 "VIAL-ENGINE-PORT do it: a port is in use already",
                 "publish another one, or port 0 for any that is free");
    expect_error(REFUSED("500", "Bind for 127.0.0.1:80 failed: port is already "
                                "allocated"),
                 "VIAL-ENGINE-PORT do it: port 127.0.0.1:80 is in use already",
                 "publish another one, or port 0 for any that is free");
    expect_error(REFUSED("400", "Unknown runtime specified runsc"),
                 "VIAL-ENGINE-RUNTIME do it: the engine has no such runtime",
                 "name one that 'docker info' lists under Runtimes, or add it to "
                 "/etc/docker/daemon.json");
    expect_error(REFUSED("400", "bind source path does not exist: /x"),
                 "VIAL-MOUNT do it: a mount cannot be made", "");
    expect_error(REFUSED("400", "invalid reference format"),
                 "VIAL-IMAGE do it: 'img:1' is not the name of an image", "");
    expect_error(REFUSED("503", "else"),
                 "VIAL-ENGINE-API do it: the engine refuses with status 503", "");
    expect_error("HTTP/1.1 200 OK\r\nApi-Version: 1.40\r\n\r\n{}",
                 "VIAL-ENGINE-API the engine speaks API 1.40; 1.41 is needed",
                 "update it: Docker 20.10, Podman 4 or later");
}

/* covers: FR-020-33 NFR-020-20 */
static void a_question_is_asked_again_and_an_order_is_not(void **state)
{
    struct engine question = { .answers = { "", "HTTP/1.1", OK_JSON "{}" } };
    struct engine order = { .answers = { "", OK_JSON "{}" } };
    struct api api = api_patient(&question);
    struct api_call call = { .method = "GET", .target = "/x", .about = "do it" };
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(api_do(&api, &call, NULL, &err), 0);
    assert_int_equal(question.calls, 3);
    finish(&question);
    api = api_patient(&order);
    call.method = "POST";
    assert_int_equal(api_do(&api, &call, NULL, &err), -1);
    assert_int_equal(order.calls, 1);
    assert_string_equal(err.code, "VIAL-ENGINE-DOWN");
    finish(&order);
}

static void what_the_engine_says_cannot_harm_a_terminal(void **state)
{
    struct vial_error err = { 0 };
    const char *body = "{\"message\":\"a\\u001b[31mb\"}";
    struct api_call call = { .about = "do it" };

    (void)state;
    (void)api_refused(&call, 500, body, strlen(body), &err);
    assert_string_equal(err.cause, "a\\x1b[31mb");
}

static int init_at(struct api *api, const char *address, struct vial_error *err)
{
    const struct api_source from = { .address = address };

    return api_init(api, &from, err);
}

/* covers: FR-020-05 */
static void an_engine_that_is_not_there_comes_with_a_remedy(void **state)
{
    struct vial_error err = { 0 };
    struct api api;
    struct api_call call = { .method = "GET", .target = "/x", .about = "do it" };

    (void)state;
    assert_int_equal(init_at(&api, "unix:///nonexistent/e.sock", &err), 0);
    assert_int_equal(api_do(&api, &call, NULL, &err), -1);
    assert_string_equal(err.message, "do it: connect to '/nonexistent/e.sock'");
    assert_non_null(strstr(err.remedy, "--driver native"));
    (void)fail(&err, VIAL_E_ENGINE_ACCESS, "x");
    (void)api_advise(&api, &err);
    assert_non_null(strstr(err.remedy, "usermod -aG docker USER"));
}

static void addresses_that_cannot_be_used_are_refused(void **state)
{
    static const char *const bad[] = { "ssh://x",           "unix://x",
                                       "/run/x.sock",       "tcp://",
                                       "tcp://:2375",       "tcp://[::1",
                                       "tcp://127.0.0.1:x", "tcp://127.0.0.1/v1.41",
                                       "tcp://a b:80",      "tcp://h:123456" };
    struct vial_error err = { 0 };
    struct api api;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(init_at(&api, bad[i], &err), -1);
        assert_string_equal(err.code, "VIAL-UNSUPPORTED");
        assert_non_null(strstr(err.remedy, "DOCKER_HOST"));
    }
    assert_int_equal(init_at(&api, NULL, &err), 0);
    assert_string_equal(api.socket, "/var/run/docker.sock");
}

static void expect_peer(const char *address, const char *tls, const char *host,
                        const char *port)
{
    const struct api_source from = { .address = address,
                                     .tls_verify = tls,
                                     .certs = "/certs" };
    struct vial_error err = { 0 };
    struct api api;

    if (api_init(&api, &from, &err) < 0)
        fail_msg("%s: %s", address, err.message);
    assert_string_equal(api.peer.host, host);
    assert_string_equal(api.peer.port, port);
    assert_true(api.remote);
    assert_int_equal(api.peer.tls, tls != NULL);
}

static void an_engine_over_tcp_has_a_host_and_a_port(void **state)
{
    (void)state;
    expect_peer("tcp://127.0.0.1:2375", NULL, "127.0.0.1", "2375");
    expect_peer("tcp://localhost", NULL, "localhost", "2375");
    expect_peer("tcp://[::1]:99/", NULL, "::1", "99");
    expect_peer("tcp://engine.example", "1", "engine.example", "2376");
}

static void without_tls_only_this_host_is_talked_to(void **state)
{
    const struct api_source from = { .address = "tcp://engine.example:2375" };
    const struct api_source trick = { .address = "tcp://127.evil.example:2375" };
    const struct api_source asked = { .address = "tcp://engine.example:2375",
                                      .plain = "1" };
    struct vial_error err = { 0 };
    struct api api;

    (void)state;
    assert_int_equal(api_init(&api, &from, &err), -1);
    assert_string_equal(err.code, "VIAL-ENGINE-TLS");
    assert_non_null(strstr(err.remedy, "DOCKER_TLS_VERIFY"));
    assert_int_equal(api_init(&api, &trick, &err), -1);
    assert_string_equal(err.code, "VIAL-ENGINE-TLS");
    assert_int_equal(api_init(&api, &asked, &err), 0);
}

static int join(const char *answer, struct vial_error *err)
{
    struct engine e = { .answers = { answer } };
    struct api api = api_on(&e);
    char name[] = "backend";
    const struct plan plan = { .network = NETWORK_BRIDGE,
                               .container = { .network_name = name } };
    int rc = docker_check_network(&api, &plan, err);

    finish(&e);
    return rc;
}

static void only_networks_behind_a_bridge_are_joined(void **state)
{
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(join(OK_JSON "{\"Name\":\"backend\",\"Driver\":\"bridge\"}", &err),
                     0);
    assert_int_equal(
        join(OK_JSON "{\"Name\":\"backend\",\"Driver\":\"macvlan\"}", &err), -1);
    assert_error(&err, "VIAL-ENGINE-NETWORK network 'backend' is of kind 'macvlan', "
                       "which leads to the host or its neighbours");
    assert_int_equal(join(OK_JSON "{\"Name\":\"backend\",\"Driver\":\"host\"}", &err),
                     -1);
    assert_int_equal(join(OK_JSON "{\"Name\":\"other\",\"Driver\":\"bridge\"}", &err),
                     -1);
    assert_error(&err, "VIAL-ENGINE-NETWORK there is no network 'backend'");
}

static void expect_name(const char *text, const char *name, const char *tag)
{
    struct image_name n;

    assert_int_equal(image_parse(text, &n, NULL), 0);
    assert_string_equal(n.name, name);
    assert_string_equal(n.tag, tag);
}

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* covers: FR-020-91 FR-020-92 */
static void image_names_are_taken_apart(void **state)
{
    static const char *const bad[] = { "",   ":x",  "a b", "a:b c", "a@sha256:12",
                                       "-a", "a\n", "a?b", "a:",    "@" DIGEST };
    struct vial_error err = { 0 };
    struct image_name n;

    (void)state;
    expect_name("python", "python", "latest");
    expect_name("python:3.11-slim", "python", "3.11-slim");
    expect_name("127.0.0.1:5000/a/b", "127.0.0.1:5000/a/b", "latest");
    expect_name("127.0.0.1:5000/a/b:v1", "127.0.0.1:5000/a/b", "v1");
    expect_name("a/b@" DIGEST, "a/b", DIGEST);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(image_parse(bad[i], &n, &err), -1);
        assert_string_equal(err.code, "VIAL-IMAGE");
    }
}

struct seen {
    unsigned count;
    unsigned long long current, total;
    int answer;
};

static int progress(void *context, const char *layer, const char *status,
                    unsigned long long current, unsigned long long total)
{
    struct seen *s = context;

    (void)layer;
    (void)status;
    s->count++;
    s->current = current;
    s->total = total;
    return s->answer;
}

#define PULLING                                                                        \
    OK_JSON "{\"status\":\"Pulling\"}\r\n{\"status\":\"Downloading\",\"id\":\"l1\","   \
            "\"progressDetail\":{\"current\":5,\"total\":9}}\r\n"

static int pull(struct engine *e, struct seen *seen, const char *name, json_t **out,
                struct vial_error *err)
{
    struct api api = api_on(e);
    struct vial_pull p = { .name = name,
                           .timeout_ms = 1000,
                           .cancel_fd = -1,
                           .progress = progress,
                           .context = seen };
    int rc = image_pull(&api, &p, out, err);

    finish(e);
    return rc;
}

/* covers: FR-020-87 FR-020-90 FR-020-95 NFR-020-56 */
static void a_pull_tells_its_progress_and_looks_at_what_came(void **state)
{
    struct engine e = { .answers = { PULLING,
                                     OK_JSON "{\"Id\":\"sha256:1\",\"Size\":7}" } };
    struct seen seen = { 0 };
    auto_json json_t *image = NULL;

    (void)state;
    assert_int_equal(pull(&e, &seen, "a/b", &image, NULL), 0);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.current, 5);
    assert_int_equal(seen.total, 9);
    assert_int_equal(json_integer_value(json_object_get(image, "size")), 7);
    assert_string_equal(e.seen[0],
                        "POST /images/create?fromImage=a%2Fb&tag=latest HTTP/1.1");
    assert_string_equal(e.seen[1], "GET /images/a/b/json HTTP/1.1");
}

/* covers: FR-020-88 NFR-020-15 NFR-020-32 */
static void a_pull_that_goes_wrong_is_an_error(void **state)
{
    struct engine in_stream = { .answers = { OK_JSON
                                             "{\"error\":\"manifest unknown\"}\r\n" } };
    struct engine refused = { .answers = { REFUSED("404", "pull access denied") } };
    struct engine other = { .answers = { PULLING, OK_JSON
                                         "{\"Id\":\"sha256:1\",\"RepoDigests\":[]}" } };
    struct engine cancelled = { .answers = { PULLING } };
    struct seen seen = { 0 };
    struct vial_error err = { 0 };
    auto_json json_t *image = NULL;

    (void)state;
    assert_int_equal(pull(&in_stream, &seen, "a", &image, &err), -1);
    assert_error(&err, "VIAL-PULL pull image 'a'");
    assert_string_equal(err.cause, "manifest unknown");
    assert_int_equal(pull(&refused, &seen, "a", &image, &err), -1);
    assert_error(&err, "VIAL-PULL pull image 'a'");
    assert_string_equal(err.cause, "pull access denied");
    assert_int_equal(pull(&other, &seen, "a@" DIGEST, &image, &err), -1);
    assert_error(&err, "VIAL-PULL image 'a@" DIGEST "' came with another digest");
    seen.answer = 1;
    assert_int_equal(pull(&cancelled, &seen, "a", &image, &err), -1);
    assert_string_equal(err.code, "VIAL-CANCELLED");
}

#define BUSY                                                                           \
    OK_JSON                                                                            \
    "{\"status\":\"Pulling\"}\r\n{\"error\":\"toomanyrequests: slow down\"}\r\n"

static int pull_again(struct engine *e, int retries, struct seen *seen,
                      struct vial_error *err)
{
    struct api api = api_on(e);
    auto_json json_t *image = NULL;
    const struct vial_pull p = { .name = "a",
                                 .timeout_ms = 60000,
                                 .cancel_fd = -1,
                                 .progress = progress,
                                 .context = seen,
                                 .retries = retries,
                                 .retry_ms = 1 };
    int rc = image_pull(&api, &p, &image, err);

    finish(e);
    return rc;
}

static void a_pull_is_tried_again_where_that_may_help(void **state)
{
    struct engine later = { .answers = { BUSY,
                                         REFUSED("500", "received unexpected HTTP "
                                                        "status: 503 Service "
                                                        "Unavailable"),
                                         PULLING, OK_JSON "{\"Id\":\"sha256:1\"}" } };
    struct engine never = { .answers = { BUSY, BUSY, BUSY, BUSY } };
    struct engine unknown = { .answers = { REFUSED("404", "manifest unknown"),
                                           PULLING } };
    struct seen seen = { 0 };
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(pull_again(&later, 2, &seen, &err), 0);
    assert_int_equal(later.calls, 4);
    assert_int_equal(seen.count, 5); /* twice it told that it waits */
    assert_int_equal(pull_again(&never, 2, &seen, &err), -1);
    assert_error(&err, "VIAL-PULL after 3 tries: pull image 'a'");
    assert_int_equal(never.calls, 3);
    assert_int_equal(pull_again(&unknown, 2, &seen, &err), -1);
    assert_error(&err, "VIAL-PULL pull image 'a'");
    assert_int_equal(unknown.calls, 1);
}

static void a_registrys_trouble_is_told_from_a_mistake(void **state)
{
    static const char *const passing[] = {
        "toomanyrequests",
        "toomanyrequests: You have reached your pull rate limit.",
        "error parsing HTTP 429 response body: invalid character 'd'",
        "received unexpected HTTP status: 503 Service Unavailable",
        "received unexpected HTTP status: 502 Bad Gateway",
        "unexpected EOF",
        "Get \"http://127.0.0.1:1/v2/\": EOF",
        "read tcp 127.0.0.1:1->127.0.0.1:2: read: connection reset by peer",
        "Get \"http://127.0.0.1:1/v2/\": dial tcp 127.0.0.1:1: connect: connection "
        "refused",
        "net/http: TLS handshake timeout",
    };
    static const char *const staying[] = {
        "manifest for a:429 not found: manifest unknown: manifest unknown",
        "pull access denied for a, repository does not exist or may require 'docker "
        "login': denied: requested access to the resource is denied",
        "manifest for toomanyrequests:1 not found: manifest unknown",
        "Get \"https://r/v2/\": dial tcp: lookup r: no such host",
        "Get \"https://r/v2/\": x509: certificate signed by unknown authority",
        "no matching manifest for linux/amd64 in the manifest list entries",
        "",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(passing) / sizeof(*passing); i++)
        if (!image_may_pass(passing[i]))
            fail_msg("taken for a mistake: %s", passing[i]);
    for (size_t i = 0; i < sizeof(staying) / sizeof(*staying); i++)
        if (image_may_pass(staying[i]))
            fail_msg("taken for passing: %s", staying[i]);
}

/* covers: FR-020-26 FR-020-27 NFR-020-21 */
static void only_what_a_dead_owner_left_is_removed(void **state)
{
    char list[2048], mine[128];
    struct engine e = { .answers = { list, NOTHING, REFUSED("404", "No such container"),
                                     REFUSED("409", "removal in progress") } };
    struct api api = api_on(&e);
    unsigned removed = 0;
    unsigned long long space = 0;

    (void)state;
    assert_int_equal(owner_name("v-1", mine, sizeof(mine)), 0);
    assert_int_equal(sscanf(mine, "vial-%llu-", &space), 1);
    (void)snprintf(
        list, sizeof(list),
        OK_JSON "[{\"Id\":\"aa\",\"Labels\":{\"vial.owner\":\"%s\"}},"
                "{\"Id\":\"bb\",\"Labels\":{\"vial.owner\":\"vial-%llu-%d-1-v-2\"}},"
                "{\"Id\":\"cc\",\"Labels\":{\"vial.owner\":\"vial-1-%d-1-v-3\"}},"
                "{\"Id\":\"dd\",\"Labels\":{}},"
                "{\"Id\":\"ee\",\"Labels\":{\"vial.owner\":\"vial-%llu-%d-1-v-4\"}},"
                "{\"Id\":\"ff\",\"Labels\":{\"vial.owner\":\"vial-%llu-%d-1-v-5\"}}]",
        mine, space, getpid(), getpid(), space, getpid(), space, getpid());
    assert_int_equal(containers_sweep(&api, 0, 100, &removed, NULL), 0);
    finish(&e);
    assert_int_equal(removed, 1); /* others were faster with the other two */
    assert_int_equal(e.calls, 4);
    assert_string_equal(e.seen[1], "DELETE /containers/bb?force=true&v=true HTTP/1.1");
    assert_string_equal(e.seen[2], "DELETE /containers/ee?force=true&v=true HTTP/1.1");
    assert_string_equal(e.seen[3], "DELETE /containers/ff?force=true&v=true HTTP/1.1");
}

/* covers: FR-020-06 */
static void a_listing_names_session_task_and_orphans(void **state)
{
    struct engine e = {
        .answers = { OK_JSON
                     "[{\"Id\":\"aa\",\"Names\":[\"/vial-s-t\"],\"State\":\"running\","
                     "\"Labels\":{\"vial.session\":\"s\",\"vial.task\":\"t\"}}]" }
    };
    struct api api = api_on(&e);
    auto_vessels struct vial_vessels list = { 0 };

    (void)state;
    assert_int_equal(containers_list(&api, &list, NULL), 0);
    finish(&e);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].name, "vial-s-t");
    assert_string_equal(list.items[0].task, "t");
    assert_false(list.items[0].orphan);
}

/* "ab" on stdout, "x" on stderr, nothing, "cd" on stdout. */
static const char wrapped[] = "\1\0\0\0\0\0\0\2ab\2\0\0\0\0\0\0\1x\1\0\0\0\0\0\0\0"
                              "\1\0\0\0\0\0\0\2cd";
#define WRAPPED (sizeof(wrapped) - 1)

static void the_wrapping_comes_off_wherever_it_is_cut(void **state)
{
    (void)state;
    for (size_t cut = 0; cut <= WRAPPED; cut++) {
        uint8_t first[WRAPPED], second[WRAPPED];
        struct mux m = { 0 };
        char got[WRAPPED + 1] = "";
        ssize_t n, more;

        memcpy(first, wrapped, cut);
        memcpy(second, wrapped + cut, WRAPPED - cut);
        n = mux_strip(&m, first, cut);
        assert_true(n >= 0);
        memcpy(got, first, (size_t)n);
        more = mux_strip(&m, second, WRAPPED - cut);
        assert_true(more >= 0);
        memcpy(got + n, second, (size_t)more);
        assert_string_equal(got, "abcd");
    }
}

static void a_wrapping_that_makes_no_sense_is_refused(void **state)
{
    uint8_t bad_stream[8] = { 9, 0, 0, 0, 0, 0, 0, 1 };
    uint8_t bad_padding[8] = { 1, 1, 0, 0, 0, 0, 0, 1 };
    struct mux m = { 0 };

    (void)state;
    assert_int_equal(mux_strip(&m, bad_stream, 8), -1);
    m = (struct mux){ 0 };
    assert_int_equal(mux_strip(&m, bad_padding, 8), -1);
}

static void expect_bytes(int fd, const char *text)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char got[64] = "";
    size_t len = 0;

    while (len < strlen(text)) {
        ssize_t n;

        assert_int_equal(poll(&p, 1, 120000), 1);
        n = read(fd, got + len, sizeof(got) - 1 - len);
        assert_true(n > 0);
        len += (size_t)n;
    }
    assert_string_equal(got, text);
}

static void the_stream_is_plain_on_our_side(void **state)
{
    auto_str struct str early = { 0 };
    struct mux mux = { 0 };
    struct pump *pump = NULL;
    struct pollfd end = { .events = POLLIN };
    int ends[2];
    int stream = -1;
    char byte;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    str_add(&early, wrapped, 9);
    assert_int_equal(pump_start(ends[0], &early, &mux_code, &mux, &pump, &stream, NULL),
                     0);
    assert_int_equal(write(ends[1], wrapped + 9, WRAPPED - 9), (ssize_t)(WRAPPED - 9));
    expect_bytes(stream, "abcd");
    assert_int_equal(write(stream, "to guest", 8), 8);
    expect_bytes(ends[1], "to guest");
    assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    end.fd = stream;
    assert_int_equal(poll(&end, 1, 120000), 1);
    assert_int_equal(read(stream, &byte, 1), 0);
    pump_stop(pump);
    (void)close(stream);
    (void)close(ends[1]);
}

static void a_pump_can_be_stopped_at_any_time(void **state)
{
    struct str early = { 0 };
    struct mux mux = { 0 };
    struct pump *pump = NULL;
    int ends[2];
    int stream = -1;
    char byte;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(pump_start(ends[0], &early, &mux_code, &mux, &pump, &stream, NULL),
                     0);
    pump_stop(pump);
    assert_int_equal(read(stream, &byte, 1), 0);
    assert_int_equal(read(ends[1], &byte, 1), 0);
    (void)close(stream);
    (void)close(ends[1]);
}

#ifdef __x86_64__
    #define OWN_ARCH   "amd64"
    #define OTHER_ARCH "arm64"
#else
    #define OWN_ARCH   "arm64"
    #define OTHER_ARCH "amd64"
#endif

/* A guest in a directory of its own; with the other architecture's beside it, or not.
 */
struct guests {
    char dir[64];
    char own[96];
    char other[96];
    int fd;
};

static struct guests make_guests(bool both)
{
    struct guests g = { .dir = "/tmp/vial-test-XXXXXX" };
    int other = -1;

    assert_non_null(mkdtemp(g.dir));
    (void)snprintf(g.own, sizeof(g.own), "%s/vial-init", g.dir);
    (void)snprintf(g.other, sizeof(g.other), "%s-" OTHER_ARCH, g.own);
    g.fd = open(g.own, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
    assert_true(g.fd >= 0);
    if (both) {
        other = open(g.other, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
        assert_int_equal(write(other, "guest", 5), 5);
        (void)close(other);
    }
    return g;
}

static void guests_done(struct guests *g)
{
    (void)close(g->fd);
    (void)unlink(g->own);
    (void)unlink(g->other);
    assert_int_equal(rmdir(g->dir), 0);
}

#define ARCH_ANSWER(arch) OK_JSON "{\"Arch\":\"" arch "\"}"

static void the_own_guest_does_for_its_own_images_and_engines(void **state)
{
    static const struct {
        const char *image, *engine;
        unsigned asked;
    } cases[] = { { OWN_ARCH, ARCH_ANSWER(OTHER_ARCH), 0 },
                  { "", ARCH_ANSWER(OTHER_ARCH), 0 }, /* an engine that does not say */
                  { OTHER_ARCH, ARCH_ANSWER(OWN_ARCH), 1 },
                  { "s390x", ARCH_ANSWER(OWN_ARCH), 1 } };
    struct guests g = make_guests(true);

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct engine e = { .answers = { cases[i].engine } };
        struct api api = api_on(&e);
        struct foreign found = { .fd = 7 };
        struct vial_error err = { 0 };

        assert_int_equal(
            foreign_guest(&api, g.fd, "img:1", cases[i].image, &found, &err), 0);
        assert_int_equal(found.fd, -1);
        assert_null(found.arch);
        assert_int_equal(e.calls, cases[i].asked);
        finish(&e);
        if (cases[i].asked)
            assert_non_null(strstr(e.seen[0], "/version"));
    }
    guests_done(&g);
}

static void an_engine_of_the_other_architecture_gets_its_own_guest(void **state)
{
    struct guests g = make_guests(true);
    struct engine e = { .answers = { ARCH_ANSWER(OTHER_ARCH) } };
    struct api api = api_on(&e);
    struct foreign found = FOREIGN_NONE;
    struct vial_error err = { 0 };
    char bytes[8] = { 0 };

    (void)state;
    assert_int_equal(foreign_guest(&api, g.fd, "img:1", OTHER_ARCH, &found, &err), 0);
    assert_string_equal(found.arch, OTHER_ARCH);
    assert_int_equal(read(found.fd, bytes, sizeof(bytes)), 5);
    assert_string_equal(bytes, "guest");
    (void)close(found.fd);
    finish(&e);
    guests_done(&g);
}

static void a_guest_that_was_not_built_is_told_and_a_strange_engine_too(void **state)
{
    struct guests g = make_guests(false);
    struct engine e = { .answers = { ARCH_ANSWER(OTHER_ARCH), ARCH_ANSWER("../../etc"),
                                     OK_JSON "{}" } };
    struct api api = api_on(&e);
    struct foreign found = FOREIGN_NONE;
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(foreign_guest(&api, g.fd, "img:1", OTHER_ARCH, &found, &err), -1);
    assert_error(&err, "VIAL-GUEST image 'img:1' needs a guest for " OTHER_ARCH
                       ", and this vial has one for " OWN_ARCH " alone");
    assert_string_equal(err.remedy,
                        "install the package 'vial-foreign', or build vial where the "
                        "cross compiler for " OTHER_ARCH " is");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(foreign_guest(&api, g.fd, "img:1", OTHER_ARCH, &found, &err),
                         -1);
        assert_error(&err, "VIAL-UNSUPPORTED the engine's architecture is neither "
                           "amd64 nor arm64");
    }
    assert_int_equal(found.fd, -1);
    finish(&e);
    guests_done(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_refusal_is_told_from_the_others),
        cmocka_unit_test(a_question_is_asked_again_and_an_order_is_not),
        cmocka_unit_test(what_the_engine_says_cannot_harm_a_terminal),
        cmocka_unit_test(an_engine_that_is_not_there_comes_with_a_remedy),
        cmocka_unit_test(addresses_that_cannot_be_used_are_refused),
        cmocka_unit_test(an_engine_over_tcp_has_a_host_and_a_port),
        cmocka_unit_test(only_networks_behind_a_bridge_are_joined),
        cmocka_unit_test(without_tls_only_this_host_is_talked_to),
        cmocka_unit_test(image_names_are_taken_apart),
        cmocka_unit_test(a_pull_tells_its_progress_and_looks_at_what_came),
        cmocka_unit_test(a_pull_that_goes_wrong_is_an_error),
        cmocka_unit_test(a_pull_is_tried_again_where_that_may_help),
        cmocka_unit_test(a_registrys_trouble_is_told_from_a_mistake),
        cmocka_unit_test(only_what_a_dead_owner_left_is_removed),
        cmocka_unit_test(a_listing_names_session_task_and_orphans),
        cmocka_unit_test(the_wrapping_comes_off_wherever_it_is_cut),
        cmocka_unit_test(a_wrapping_that_makes_no_sense_is_refused),
        cmocka_unit_test(the_stream_is_plain_on_our_side),
        cmocka_unit_test(a_pump_can_be_stopped_at_any_time),
        cmocka_unit_test(the_own_guest_does_for_its_own_images_and_engines),
        cmocka_unit_test(an_engine_of_the_other_architecture_gets_its_own_guest),
        cmocka_unit_test(a_guest_that_was_not_built_is_told_and_a_strange_engine_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
