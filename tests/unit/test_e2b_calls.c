/* SPDX-License-Identifier: Apache-2.0 */

/* What the driver e2b says to a service, and what it makes of the answers: no I/O. */

#include <stdlib.h>

#include "base/auto.h"
#include "base/fail.h"
#include "base/json.h"
#include "check.h"
#include "driver/e2b/answers.h"

static struct e2b_endpoint endpoint;

static const struct e2b_box box = { .id = "i1",
                                    .token = "inside",
                                    .traffic = "traffic" };

static int set_up(void **state)
{
    const struct e2b_source from = { .key = "e2b_1f",
                                     .api_url = "http://127.0.0.1:8080/e2b/" };

    (void)state;
    return e2b_endpoint_init(&endpoint, &from, NULL);
}

/* As it goes over the wire, but for the envelope's length. */
static void expect_call(struct e2b_call *c, const char *text)
{
    auto_str struct str got = { 0 };
    bool framed = str_eq(c->type, "application/connect+json");
    size_t skip = framed ? 5 : 0;

    assert_false(c->failed);
    str_printf(&got, "%s %s\r\n%s%s\n%s", c->method, c->target.data, c->headers.data,
               c->type ? c->type : "", c->type ? c->body.data + skip : "");
    for (size_t i = 0, n = 0; i <= got.len; i++)
        if (got.data[i] != '\r')
            got.data[n++] = got.data[i];
    assert_string_equal(got.data, text);
    if (framed)
        assert_int_equal((unsigned char)c->body.data[3] << 8 |
                             (unsigned char)c->body.data[4],
                         c->body.len - 5);
    e2b_call_done(c);
}

static void a_sandbox_is_asked_for_with_a_lease_and_its_owner(void **state)
{
    const struct e2b_wish wish = { .vessel = "v-1",
                                   .owner = "vial-1-2-3-v-1",
                                   .host = "boot",
                                   .task = "t",
                                   .lease_s = 120 };
    struct e2b_call c;

    (void)state;
    e2b_call_create(&c, &endpoint, &wish);
    expect_call(&c, "POST /sandboxes\nX-API-Key: e2b_1f\napplication/json\n"
                    "{\"templateID\":\"base\",\"timeout\":120,\"secure\":true,"
                    "\"autoPause\":false,\"allow_internet_access\":false,"
                    "\"metadata\":{\"vial\":\"vessel\",\"vial.owner\":"
                    "\"vial-1-2-3-v-1\",\"vial.host\":\"boot\",\"vial.vessel\":"
                    "\"v-1\",\"vial.task\":\"t\"}}");
}

static void a_lease_is_renewed_and_ended_by_the_key(void **state)
{
    struct e2b_call c;

    (void)state;
    e2b_call_renew(&c, &endpoint, "i1", 120);
    expect_call(&c, "POST /sandboxes/i1/timeout\nX-API-Key: e2b_1f\n"
                    "application/json\n{\"timeout\":120}");
    e2b_call_kill(&c, &endpoint, "i1");
    expect_call(&c, "DELETE /sandboxes/i1\nX-API-Key: e2b_1f\n\n");
    e2b_call_look(&c, &endpoint, "i1");
    expect_call(&c, "GET /sandboxes/i1\nX-API-Key: e2b_1f\n\n");
    e2b_call_list(&c, &endpoint);
    expect_call(&c, "GET /sandboxes?metadata=vial%3Dvessel\n"
                    "X-API-Key: e2b_1f\n\n");
}

#define INSIDE                                                                         \
    "E2b-Sandbox-Id: i1\nE2b-Sandbox-Port: 49983\nX-Access-Token: inside\n"            \
    "E2B-Traffic-Access-Token: traffic\n"

static void what_is_inside_is_asked_by_its_own_token_and_never_by_the_key(void **state)
{
    const char *const argv[] = { "/bin/sh", "-c", "\"x\"", NULL };
    char bytes[] = "ELF";
    const struct blob guest = { bytes, 3 };
    struct e2b_call c;

    (void)state;
    e2b_call_upload(&c, &box, ".vial init", &guest);
    expect_call(&c, "POST /files?path=.vial%20init\n" INSIDE
                    "application/octet-stream\nELF");
    e2b_call_start(&c, &box, argv);
    expect_call(&c, "POST /process.Process/Start\n" INSIDE
                    "Connect-Protocol-Version: 1\nKeepalive-Ping-Interval: 30\n"
                    "application/connect+json\n{\"process\":{\"cmd\":\"/bin/sh\","
                    "\"args\":[\"-c\",\"\\\"x\\\"\"]},\"stdin\":true}");
    e2b_call_input(&c, &box, 7, "\0\1", 2);
    expect_call(&c, "POST /process.Process/SendInput\n" INSIDE
                    "Connect-Protocol-Version: 1\napplication/json\n"
                    "{\"process\":{\"pid\":7},\"input\":{\"stdin\":\"AAE=\"}}");
}

static void expect_endpoint(const struct e2b_source *from, const char *text)
{
    struct e2b_endpoint e;
    struct vial_error err = { 0 };

    assert_int_equal(e2b_endpoint_init(&e, from, &err), -1);
    assert_error(&err, text);
}

static void an_address_without_encryption_leads_no_farther_than_this_host(void **state)
{
    struct e2b_source from = { .key = "e2b_1f", .api_url = "http://10.0.0.1" };

    (void)state;
    expect_endpoint(&from, "VIAL-VALUE E2B_API_URL 'http://10.0.0.1' leads to another "
                           "host, without encryption");
    from.api_url = "ftp://x";
    expect_endpoint(&from, "VIAL-VALUE E2B_API_URL 'ftp://x' begins with neither "
                           "https:// nor http://");
    from.api_url = "http://127.0.0.1:1/a b";
    expect_endpoint(&from, "VIAL-VALUE E2B_API_URL 'http://127.0.0.1:1/a b' is not "
                           "HOST:PORT");
    from.api_url = "http://user@127.0.0.1";
    expect_endpoint(&from, "VIAL-VALUE E2B_API_URL 'http://user@127.0.0.1' is not "
                           "HOST:PORT");
}

static void a_key_that_is_none_is_refused_and_not_shown(void **state)
{
    struct e2b_source from = { .key = "e2b_1\r\nX: y" };

    (void)state;
    expect_endpoint(&from, "VIAL-REMOTE E2B_API_KEY is not a key");
    from.key = "";
    expect_endpoint(&from, "VIAL-REMOTE E2B_API_KEY is not set");
    from.key = "e2b_1f";
    from.template_name = "a b";
    expect_endpoint(&from, "VIAL-VALUE E2B_TEMPLATE 'a b' is not a name");
    from.template_name = NULL;
    from.domain = "a/b";
    expect_endpoint(&from, "VIAL-VALUE E2B_DOMAIN 'a/b' is not a name");
}

static void a_url_s_path_stands_before_every_other(void **state)
{
    (void)state;
    assert_string_equal(endpoint.api.host, "127.0.0.1:8080");
    assert_string_equal(endpoint.api.path, "/e2b");
    assert_string_equal(endpoint.api.peer.port, "8080");
}

static int read_box(const char *text, struct e2b_box *out, struct vial_error *err)
{
    auto_json json_t *answer = json_loads(text, 0, NULL);

    assert_non_null(answer);
    return e2b_read_box(answer, out, err);
}

static void what_the_service_says_of_a_sandbox_cannot_become_more_than_it_is(
    void **state)
{
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"sandboxID\":\"\"}",
        "{\"sandboxID\":7}",
        "{\"sandboxID\":\"../x\"}",
        "{\"sandboxID\":\"I1\"}",
        "{\"sandboxID\":\"i1\",\"envdAccessToken\":\"a\\r\\nb\"}",
        "{\"sandboxID\":\"i1\",\"envdAccessToken\":[]}",
        "{\"sandboxID\":\"i1\",\"domain\":\"x/y\"}",
        "{\"sandboxID\":\"i1\",\"domain\":\"x@y\"}",
    };
    struct e2b_box out;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct vial_error err = { 0 };

        if (read_box(bad[i], &out, &err) == 0)
            fail_msg("%s is taken", bad[i]);
        assert_string_equal(err.code, "VIAL-REMOTE");
    }
    assert_int_equal(read_box("{\"sandboxID\":\"i1\",\"domain\":null,"
                              "\"envdAccessToken\":\"t\"}",
                              &out, NULL),
                     0);
    assert_string_equal(out.id, "i1");
    assert_string_equal(out.token, "t");
    assert_string_equal(out.domain, "");
}

static void a_sandbox_can_be_ended_however_bad_the_rest_of_the_answer_is(void **state)
{
    struct e2b_box out;

    (void)state;
    assert_int_equal(read_box("{\"sandboxID\":\"i1\",\"domain\":\"x/y\"}", &out, NULL),
                     -1);
    assert_string_equal(out.id, "i1");
    assert_int_equal(read_box("{\"sandboxID\":\"i/1\"}", &out, NULL), -1);
    assert_string_equal(out.id, "");
}

static void expect_nowhere(const struct e2b_source *from, const char *domain,
                           const char *text)
{
    struct e2b_endpoint e;
    struct e2b_server server;
    struct vial_error err = { 0 };

    assert_int_equal(e2b_endpoint_init(&e, from, NULL), 0);
    assert_int_equal(e2b_endpoint_box(&e, "i1", domain, &server, &err), -1);
    assert_error(&err, text);
    assert_true(err.remedy[0]);
}

static void a_sandbox_is_looked_for_where_somebody_said_it_is(void **state)
{
    struct e2b_source from = { .key = "e2b_1f", .api_url = "http://127.0.0.1:1" };

    (void)state;
    expect_nowhere(&from, "",
                   "VIAL-REMOTE E2B_SANDBOX_URL is not set, and the service says no "
                   "domain");
    expect_nowhere(&from, "x:y:z",
                   "VIAL-REMOTE the sandbox's address 'https://49983-i1.x:y:z' is not "
                   "HOST:PORT");
}

static int read_home(const char *text, char *home)
{
    auto_json json_t *answer = json_loads(text, 0, NULL);

    assert_non_null(answer);
    return e2b_read_home(answer, ".f", home, NULL);
}

static void a_home_is_a_directory_by_its_whole_path(void **state)
{
    char home[E2B_PATH];

    (void)state;
    assert_int_equal(read_home("[{\"path\":\"/home/user/.f\"}]", home), 0);
    assert_string_equal(home, "/home/user");
    assert_int_equal(read_home("[{\"path\":\"/home/../.f\"}]", home), -1);
    assert_int_equal(read_home("[{\"path\":\"home/.f\"}]", home), -1);
    assert_int_equal(read_home("[{\"path\":\"/.f\"}]", home), -1);
    assert_int_equal(read_home("[{\"path\":\"/home/x.f\"}]", home), -1);
    assert_int_equal(read_home("[{\"path\":\"/a\\nb/.f\"}]", home), -1);
    assert_int_equal(read_home("[]", home), -1);
    assert_int_equal(read_home("{}", home), -1);
}

/* A frame as a server would send it. */
static void frame(struct str *out, char flags, const char *text)
{
    const char head[5] = { flags, 0, 0, (char)(strlen(text) >> 8),
                           (char)(strlen(text) & 0xff) };

    str_add(out, head, sizeof(head));
    str_puts(out, text);
}

static int note(void *context, const struct e2b_event *event, struct vial_error *err)
{
    struct str *out = context;

    (void)err;
    if (event->kind == EVENT_START)
        str_printf(out, "start %u;", event->pid);
    if (event->kind == EVENT_OUT)
        str_printf(out, "out %.*s;", (int)event->data.len, event->data.data);
    if (event->kind == EVENT_ERR)
        str_printf(out, "err %.*s;", (int)event->data.len, event->data.data);
    if (event->kind == EVENT_END)
        str_printf(out, "end %s;", event->status);
    return 0;
}

/* All of BYTES, in pieces of STEP. */
static int feed(const struct str *bytes, size_t step, struct str *seen,
                struct vial_error *err)
{
    struct e2b_frames frames = { 0 };
    int rc = 0;

    for (size_t at = 0; rc == 0 && at < bytes->len; at += step)
        rc = e2b_feed(&frames, bytes->data + at,
                      bytes->len - at < step ? bytes->len - at : step, note, seen, err);
    str_done(&frames.held);
    return rc;
}

static void events_are_the_same_however_their_bytes_arrive(void **state)
{
    auto_str struct str bytes = { 0 };

    (void)state;
    frame(&bytes, 0, "{\"event\":{\"start\":{\"pid\":7}}}");
    frame(&bytes, 0, "{\"event\":{\"data\":{\"stdout\":\"aGk=\"}}}");
    frame(&bytes, 0, "{\"event\":{\"keepalive\":{}}}");
    frame(&bytes, 0, "{\"event\":{\"data\":{\"stderr\":\"bm8=\"}}}");
    frame(&bytes, 0, "{\"event\":{\"data\":{\"pty\":\"bm8=\"}}}");
    frame(&bytes, 0, "{\"event\":{\"end\":{\"status\":\"exit status 1\\u001b[0m\"}}}");
    frame(&bytes, 2, "{}");
    for (size_t step = 1; step <= bytes.len; step++) {
        auto_str struct str seen = { 0 };

        assert_int_equal(feed(&bytes, step, &seen, NULL), 0);
        assert_string_equal(seen.data,
                            "start 7;out hi;err no;end exit status 1\\x1b[0m;");
    }
}

static void refuse(char flags, const char *text, const char *error)
{
    auto_str struct str bytes = { 0 };
    auto_str struct str seen = { 0 };
    struct vial_error err = { 0 };

    frame(&bytes, flags, text);
    if (feed(&bytes, bytes.len, &seen, &err) == 0)
        fail_msg("%s is taken", text);
    if (error)
        assert_error(&err, error);
    assert_string_equal(err.code, "VIAL-REMOTE");
}

#define NONSENSE "VIAL-REMOTE the service's answer makes no sense: "

static void frames_that_make_no_sense_end_the_stream(void **state)
{
    (void)state;
    refuse(1, "{}", NONSENSE "a frame that is compressed, or behind the last");
    refuse(0, "{", NULL);
    refuse(0, "", NULL);
    refuse(0, "{\"event\":{\"start\":{\"pid\":0}}}", NONSENSE "the guest's pid");
    refuse(0, "{\"event\":{\"start\":{\"pid\":4294967296}}}",
           NONSENSE "the guest's pid");
    refuse(0, "{\"event\":{\"data\":{\"stdout\":\"!\"}}}",
           NONSENSE "output that is not base64");
    refuse(0, "{\"event\":{\"data\":{\"stdout\":7}}}",
           NONSENSE "output that is not base64");
    refuse(2, "{\"error\":{\"code\":\"not_found\",\"message\":\"x\"}}",
           "VIAL-REMOTE the sandbox says 'not_found'");
}

static void a_frame_that_says_it_is_endless_is_not_waited_for(void **state)
{
    const char head[] = "\0\x7f\xff\xff\xff";
    struct e2b_frames frames = { 0 };
    struct vial_error err = { 0 };

    (void)state;
    assert_int_equal(e2b_feed(&frames, head, 5, note, NULL, &err), -1);
    assert_error(&err, NONSENSE "a frame that is too long");
    str_done(&frames.held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sandbox_is_asked_for_with_a_lease_and_its_owner),
        cmocka_unit_test(a_lease_is_renewed_and_ended_by_the_key),
        cmocka_unit_test(what_is_inside_is_asked_by_its_own_token_and_never_by_the_key),
        cmocka_unit_test(an_address_without_encryption_leads_no_farther_than_this_host),
        cmocka_unit_test(a_key_that_is_none_is_refused_and_not_shown),
        cmocka_unit_test(a_url_s_path_stands_before_every_other),
        cmocka_unit_test(
            what_the_service_says_of_a_sandbox_cannot_become_more_than_it_is),
        cmocka_unit_test(a_sandbox_can_be_ended_however_bad_the_rest_of_the_answer_is),
        cmocka_unit_test(a_sandbox_is_looked_for_where_somebody_said_it_is),
        cmocka_unit_test(a_home_is_a_directory_by_its_whole_path),
        cmocka_unit_test(events_are_the_same_however_their_bytes_arrive),
        cmocka_unit_test(frames_that_make_no_sense_end_the_stream),
        cmocka_unit_test(a_frame_that_says_it_is_endless_is_not_waited_for),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
