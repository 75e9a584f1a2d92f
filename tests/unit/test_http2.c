/* SPDX-License-Identifier: Apache-2.0 */

/* Requests with a secret in HTTP/2, between a client and a host that are played here,
 * by the same library; and what the fuzzer began from. */

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replay.h"
#include "secrets/http2.h"

/* NOLINTBEGIN(bugprone-suspicious-include) */
#define LLVMFuzzerTestOneInput replay_http2
#include "../fuzz/fuzz_http2.c"
#undef LLVMFuzzerTestOneInput
/* NOLINTEND(bugprone-suspicious-include) */

/* One of the two that are played, and what it was told. */
struct peer {
    nghttp2_session *session;
    struct side *side;
    struct str heads, body;
    size_t bodies; /* bytes of them */
    uint32_t reset, away;
    int32_t last; /* stream that was opened */
    const char *says;
    size_t said, whole; /* of its body, which repeats SAYS */
};

static int hear_field(nghttp2_session *session, const nghttp2_frame *frame,
                      const uint8_t *name, size_t name_len, const uint8_t *value,
                      size_t len, uint8_t flags, void *at)
{
    struct peer *p = at;

    (void)session;
    (void)flags;
    p->last = frame->hd.stream_id;
    str_add(&p->heads, name, name_len);
    str_puts(&p->heads, "=");
    str_add(&p->heads, value, len);
    str_puts(&p->heads, "\n");
    return 0;
}

static int hear_data(nghttp2_session *session, uint8_t flags, int32_t id,
                     const uint8_t *data, size_t len, void *at)
{
    struct peer *p = at;

    (void)session;
    (void)flags;
    (void)id;
    p->bodies += len;
    str_add(&p->body, data, len < 200 ? len : 200);
    return 0;
}

static int hear_frame(nghttp2_session *session, const nghttp2_frame *frame, void *at)
{
    struct peer *p = at;

    (void)session;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        p->reset = frame->rst_stream.error_code;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        p->away = frame->goaway.error_code;
    return 0;
}

/* A client takes no more than it is told to. */
static void peer_open(struct peer *p, struct side *side, bool client)
{
    nghttp2_session_callbacks *by = NULL;
    nghttp2_option *with = NULL;

    *p = (struct peer){ .side = side, .says = "" };
    assert_int_equal(nghttp2_session_callbacks_new(&by), 0);
    nghttp2_session_callbacks_set_on_header_callback(by, hear_field);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(by, hear_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(by, hear_frame);
    assert_int_equal(nghttp2_option_new(&with), 0);
    nghttp2_option_set_no_auto_window_update(with, client);
    assert_int_equal(client ? nghttp2_session_client_new2(&p->session, by, p, with)
                            : nghttp2_session_server_new2(&p->session, by, p, with),
                     0);
    nghttp2_option_del(with);
    nghttp2_session_callbacks_del(by);
    assert_int_equal(nghttp2_submit_settings(p->session, NGHTTP2_FLAG_NONE, NULL, 0),
                     0);
}

static bool peer_move(struct peer *p)
{
    bool moved = p->side->out_len > 0;
    const uint8_t *data = NULL;
    ssize_t n = 1;

    if (moved)
        assert_true(nghttp2_session_mem_recv(p->session, p->side->out + p->side->out_at,
                                             p->side->out_len) >= 0);
    two_ends_taken(p->side);
    while (n > 0 && IN_MAX - p->side->in_len > 20000) {
        n = nghttp2_session_mem_send(p->session, &data);
        assert_true(n >= 0);
        assert_int_equal(two_ends_put(p->side, data, (size_t)n), n);
        moved = moved || n > 0;
    }
    return moved;
}

struct talk {
    struct two_ends ends;
    struct peer client, host;
};

static void talk_open(struct talk *t)
{
    two_ends_open(&t->ends);
    peer_open(&t->client, &t->ends.e.client, true);
    peer_open(&t->host, &t->ends.e.server, false);
}

/* Until nobody has anything to say. */
static void talk_go_on(struct talk *t)
{
    bool moved = true;

    while (moved) {
        moved = peer_move(&t->client);
        moved = peer_move(&t->host) || moved;
        moved = http2_move(t->ends.e.two) || moved;
    }
}

static void talk_close(struct talk *t)
{
    for (int i = 0; i < 2; i++) {
        struct peer *p = i ? &t->host : &t->client;

        nghttp2_session_del(p->session);
        str_done(&p->heads);
        str_done(&p->body);
    }
    two_ends_close(&t->ends);
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value,
                         strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE };
}

static ssize_t say_more(nghttp2_session *session, int32_t id, uint8_t *room, size_t len,
                        uint32_t *flags, nghttp2_data_source *source, void *at)
{
    struct peer *p = at;
    size_t n = 0, period = strlen(p->says);

    (void)session;
    (void)id;
    (void)source;
    for (; n < len && p->said < p->whole; n++)
        room[n] = (uint8_t)p->says[p->said++ % period];
    if (p->said == p->whole)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static void answer(struct talk *t, const char *says, size_t whole, const char *more)
{
    const nghttp2_data_provider body = { .read_callback = say_more };
    const nghttp2_nv head[] = { field(":status", "200"), field("x-said", more) };

    t->host.says = says;
    t->host.whole = whole;
    assert_int_equal(
        nghttp2_submit_response(t->host.session, t->host.last, head, 2, &body), 0);
}

static void ask(struct talk *t, const char *path, const char *name, const char *value)
{
    const nghttp2_nv head[] = { field(":method", "GET"), field(":scheme", "https"),
                                field(":path", path), field(":authority", HOST),
                                field(name, value) };

    assert_true(nghttp2_submit_request(t->client.session, NULL, head, 5, NULL, NULL) >
                0);
    talk_go_on(t);
}

static void a_value_goes_to_the_host_and_does_not_come_back(void **state)
{
    struct talk t;

    (void)state;
    talk_open(&t);
    ask(&t, "/v1/x", "authorization", "Bearer " STAND);
    assert_string_equal(t.host.heads.data,
                        ":method=GET\n:scheme=https\n:path=/v1/x\n:authority=" HOST
                        "\naccept-encoding=identity\nauthorization=Bearer " VALUE
                        "\nx-added=1\n");
    answer(&t, "you said " VALUE, 9 + strlen(VALUE), "it was " VALUE);
    talk_go_on(&t);
    assert_string_equal(t.client.heads.data, ":status=200\nx-said=it was " STAND "\n");
    assert_string_equal(t.client.body.data, "you said " STAND);
    assert_int_equal(t.ends.e.verdict, GATE_OK);
    talk_close(&t);
}

static void what_the_rules_forbid_is_answered_here(void **state)
{
    struct talk t;

    (void)state;
    talk_open(&t);
    ask(&t, "/admin", "authorization", "Bearer " STAND);
    assert_null(t.host.heads.data);
    assert_non_null(strstr(t.client.heads.data, ":status=403\n"));
    assert_string_equal(t.client.body.data,
                        "vial: the secret's rules do not allow this request\n");
    assert_int_equal(t.ends.e.verdict, GATE_REQUEST);
    ask(&t, "/v1/x", "x-a", "b"); /* the connection goes on */
    assert_non_null(t.host.heads.data);
    talk_close(&t);
}

static void an_answer_that_is_larger_than_allowed_is_cut_off(void **state)
{
    struct talk t;

    (void)state;
    talk_open(&t);
    ask(&t, "/v1/x", "x-a", "b");
    answer(&t, "0123456789", 5000, "no length");
    talk_go_on(&t);
    assert_int_equal(t.client.reset, NGHTTP2_INTERNAL_ERROR);
    assert_true(t.client.bodies <= 4000);
    assert_int_equal(t.ends.e.verdict, GATE_RESPONSE);
    talk_close(&t);
}

/* However much the host has to say: what its client does not take is not taken from it.
 */
static void an_answer_that_nobody_takes_stays_with_its_host(void **state)
{
    const nghttp2_settings_entry none[] = { { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                              0 } };
    struct talk t;

    (void)state;
    talk_open(&t);
    t.ends.e.max_response = 0;
    assert_int_equal(
        nghttp2_submit_settings(t.client.session, NGHTTP2_FLAG_NONE, none, 1), 0);
    ask(&t, "/v1/x", "x-a", "b");
    answer(&t, "0123456789", 64u << 20, "much");
    talk_go_on(&t);
    assert_int_equal(t.client.bodies, 0);
    assert_true(t.host.said > 0 && t.host.said <= 1u << 20);
    talk_close(&t);
}

static void take(const struct talk *t, int32_t id, int32_t bytes)
{
    assert_int_equal(
        nghttp2_submit_window_update(t->client.session, NGHTTP2_FLAG_NONE, id, bytes),
        0);
}

static size_t room_of_answers(const struct talk *t)
{
    size_t all = 0;

    for (const struct stream *s = t->ends.e.two->streams; s; s = s->next)
        all += s->answer.cap;
    return all;
}

/* A client that takes all but the end of an answer, of many: what it has taken needs no
 * room any more. */
static void what_was_taken_needs_no_room(void **state)
{
    enum { ASKED = 40, EACH = HOST_WINDOW / 2, LEFT = 10 };
    const nghttp2_settings_entry none[] = { { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                              0 } };
    struct talk t;

    (void)state;
    talk_open(&t);
    t.ends.e.max_response = 0;
    assert_int_equal(
        nghttp2_submit_settings(t.client.session, NGHTTP2_FLAG_NONE, none, 1), 0);
    for (int i = 0; i < ASKED; i++) {
        ask(&t, "/v1/x", "x-a", "b");
        t.host.said = 0;
        answer(&t, "0123456789", EACH, "much");
        talk_go_on(&t);
        assert_int_equal(t.host.said, EACH);
        take(&t, 0, EACH);
        take(&t, 2 * i + 1, EACH - LEFT);
        talk_go_on(&t);
        assert_int_equal(t.client.bodies, (size_t)(i + 1) * (EACH - LEFT));
    }
    assert_true(room_of_answers(&t) < (size_t)ASKED * 8 * LEFT);
    talk_close(&t);
}

/* Who is handed over, and says nothing at all. */
static void a_client_that_is_gone_at_once_keeps_nobody_busy(void **state)
{
    struct exchange e = { .server = { .fd = -1 }, .deadline_ns = UINT64_MAX };
    int pair[2];
    bool more = false;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    e.client.fd = pair[0];
    assert_true(exchange_turn(&e, &more)); /* it may still speak */
    assert_false(more);
    (void)close(pair[1]);
    assert_false(exchange_turn(&e, &more));
    side_done(&e.client);
}

/* Why the client is sent away by what waits for it; 0: it is not. */
static uint32_t sent_away(struct side *s)
{
    const uint8_t *at = s->out ? s->out + s->out_at : NULL;
    size_t left = s->out_len;
    uint32_t why = 0;

    while (left >= FRAME) {
        size_t size = FRAME + ((size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2]);

        if (at[3] == NGHTTP2_GOAWAY)
            why = at[FRAME + 7];
        at += size;
        left -= size;
    }
    two_ends_taken(s);
    return why;
}

/* A client that says one frame again and again, and hears all. */
static void check_flood(const void *frame, size_t len)
{
    static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct two_ends t;
    uint32_t why = 0;

    two_ends_open(&t);
    (void)two_ends_put(&t.e.client, magic, sizeof magic - 1);
    for (size_t i = 0; i < 1000000 && !t.e.closing; i++) {
        if (IN_MAX - t.e.client.in_len >= len)
            (void)two_ends_put(&t.e.client, frame, len);
        else if (http2_move(t.e.two))
            why = sent_away(&t.e.client);
    }
    assert_true(t.e.closing);
    assert_int_equal(why, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(t.e.verdict, GATE_REQUEST);
    two_ends_close(&t);
}

static void who_only_keeps_us_busy_is_sent_away(void **state)
{
    static const char ping[] = "\0\0\10\6\0\0\0\0\0"
                               "12345678";
    static const char settings[] = "\0\0\0\4\0\0\0\0\0";
    static const char window[] = "\0\0\4\10\0\0\0\0\0\0\0\0\1";
    static const char priority[] = "\0\0\5\2\0\0\0\0\3\0\0\0\0\1";
    static const char unknown[] = "\0\0\1\115\0\0\0\0\0x";

    (void)state;
    check_flood(ping, sizeof ping - 1);
    check_flood(settings, sizeof settings - 1);
    check_flood(window, sizeof window - 1);
    check_flood(priority, sizeof priority - 1);
    check_flood(unknown, sizeof unknown - 1);
}

static void a_client_that_resets_all_it_asks_is_sent_away(void **state)
{
    struct talk t;
    size_t asked = 0;

    (void)state;
    talk_open(&t);
    while (!t.ends.e.closing && asked < 100000) {
        ask(&t, "/v1/x", "x-a", "b");
        (void)nghttp2_submit_rst_stream(t.client.session, NGHTTP2_FLAG_NONE,
                                        (int32_t)(2 * asked++ + 1), NGHTTP2_CANCEL);
        talk_go_on(&t);
    }
    assert_int_equal(t.client.away, NGHTTP2_ENHANCE_YOUR_CALM);
    talk_close(&t);
}

/* One table for both ways: what is written as a head of HTTP/1.1, or not at all. */
static void only_what_is_one_head_becomes_one(void **state)
{
    static const struct {
        const char *name, *value;
        bool good;
    } more[] = {
        { "x-a", "b", true },         { "te", "trailers", true },
        { "host", HOST, true },       { "x-a", "b\r\nx-b: c", false },
        { "x-a", "b\n", false },      { "X-A", "b", false },
        { "x-a:", "b", false },       { "x a", "b", false },
        { "", "b", false },           { "te", "gzip", false },
        { "connection", "x", false }, { "transfer-encoding", "chunked", false },
        { "upgrade", "h2c", false },  { ":path", "/other", false },
        { ":status", "200", false },  { ":other", "x", false },
        { "keep-alive", "x", false }, { "http2-settings", "x", false },
    };
    static const char *const line[][2] = { { ":method", "GET" },
                                           { ":scheme", "https" },
                                           { ":path", "/v1" },
                                           { ":authority", HOST } };

    (void)state;
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        struct told_head t = { 0 };
        auto_str struct str out = { 0 };
        struct refusal wrong = { 0 };

        for (size_t k = 0; k < sizeof(line) / sizeof(line[0]); k++)
            told_head_add(&t, line[k][0], strlen(line[k][0]), line[k][1],
                          strlen(line[k][1]));
        told_head_add(&t, more[i].name, strlen(more[i].name), more[i].value,
                      strlen(more[i].value));
        assert_int_equal(told_head_request(&t, true, &out, &wrong), more[i].good);
        if (i == 0)
            assert_string_equal(out.data,
                                "GET /v1 HTTP/1.1\r\nhost: " HOST "\r\nx-a: b\r\n\r\n");
        told_head_clear(&t);
    }
}

static void the_corpus_holds(void **state)
{
    (void)state;
    replay("http2", replay_http2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_goes_to_the_host_and_does_not_come_back),
        cmocka_unit_test(what_the_rules_forbid_is_answered_here),
        cmocka_unit_test(an_answer_that_is_larger_than_allowed_is_cut_off),
        cmocka_unit_test(an_answer_that_nobody_takes_stays_with_its_host),
        cmocka_unit_test(what_was_taken_needs_no_room),
        cmocka_unit_test(a_client_that_is_gone_at_once_keeps_nobody_busy),
        cmocka_unit_test(who_only_keeps_us_busy_is_sent_away),
        cmocka_unit_test(a_client_that_resets_all_it_asks_is_sent_away),
        cmocka_unit_test(only_what_is_one_head_becomes_one),
        cmocka_unit_test(the_corpus_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
