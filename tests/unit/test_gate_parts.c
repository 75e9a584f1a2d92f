/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of a gate that read what strangers say, under sanitizers: the programs
 * themselves are built without. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "gate/gate.h"
#include "wire/gate_message.h"

#define TRIES 20000

static const char *parse(const char *text)
{
    struct name_rule rule;

    return name_rule_parse(text, &rule);
}

static bool covers(const char *wide, const char *narrow)
{
    struct name_rule a, b;

    assert_null(name_rule_parse_any(wide, &a));
    assert_null(name_rule_parse_any(narrow, &b));
    return name_rule_covers(&a, &b);
}

static void a_rule_covers_what_it_allows_and_no_more(void **state)
{
    (void)state;
    assert_true(covers("a.b", "a.b:443"));
    assert_true(covers("a.b:440-450", "a.b:443"));
    assert_true(covers("*.b:1-9", "x.a.b:9"));
    assert_true(covers("*.b", "*.a.b"));
    assert_true(covers("*", "*.a.b"));
    assert_true(covers("A.B", "a.b"));
    assert_false(covers("a.b", "a.b:8080"));
    assert_false(covers("a.b:80", "a.b"));
    assert_false(covers("*.b", "b"));
    assert_false(covers("*.a.b", "*.b"));
    assert_false(covers("*.b", "xb"));
    assert_false(covers("*.b", "*"));
}

static void an_address_or_nonsense_is_no_rule(void **state)
{
    char longest[400];

    (void)state;
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    assert_string_equal(parse(longest), "it is longer than a host's name");
    longest[64] = 0;
    assert_string_equal(parse(longest), "it is not a host's name");
    for (const char *const *bad =
             (const char *const[]){ "", ".", "a..b", "a.", "1.2.3.4", "*a.b", "a.*.b",
                                    "a/b", NULL };
         *bad; bad++)
        assert_string_equal(parse(*bad), "it is not a host's name");
}

static void a_range_covers_ranges_alone_and_no_more_than_it_has(void **state)
{
    (void)state;
    assert_true(covers("10.0.0.0/8", "10.255.0.0/16:443"));
    assert_true(covers("10.0.0.0/8:1-9", "10.1.2.3:9"));
    assert_true(covers("[fd00::/8]:5432", "[fd00::1]:5432"));
    assert_true(covers("0.0.0.0/0", "10.0.0.0/8"));
    assert_false(covers("10.0.0.0/8", "10.0.0.0/7:80"));
    assert_false(covers("10.0.0.0/8", "11.0.0.0/8"));
    assert_false(covers("10.0.0.0/8:80", "10.0.0.0/8"));
    assert_false(covers("0.0.0.0/0", "::/0"));
    assert_false(covers("*", "10.0.0.1"));
    assert_false(covers("0.0.0.0/0", "a.b"));
    assert_false(covers("::/0", "*"));
}

static bool is_private(const char *text)
{
    struct range r;

    assert_true(range_parse(text, &r));
    return range_is_private(&r);
}

static void a_range_is_private_if_none_of_it_is_public(void **state)
{
    static const char *const private_ones[] = {
        "10.0.0.0/8",   "10.1.0.0/16", "127.0.0.1", "192.168.0.0/16",
        "224.0.0.0/3",  "240.0.0.0/4", "fd00::/8",  "fe80::/10",
        "::1",          "::/3",        "2002::/16", "2001:db8::1",
        "::ffff:0:0/96"
    };
    static const char *const open[] = { "0.0.0.0/0", "8.0.0.0/6", "1.1.1.1",
                                        "::/0",      "2000::/3",  "2001::/16" };

    (void)state;
    for (size_t i = 0; i < sizeof private_ones / sizeof *private_ones; i++)
        if (!is_private(private_ones[i]))
            fail_msg("%s passes for public", private_ones[i]);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        assert_false(is_private(open[i]));
}

static void texts_that_are_nearly_ranges_are_none(void **state)
{
    static const char *const bad[] = { "10.0.0.0/",    "10.0.0.0/33",
                                       "10.0.0.0/-1",  "10.0.0.0/ 8",
                                       "10.0.0.0/8x",  "[10.0.0.0/8]:80",
                                       "[fd00::/8",    "[fd00::/8]80",
                                       "[]:80",        "[::1]:",
                                       "fd00::/8:80",  "10.0.0.0/8:",
                                       "10.0.0.0/8:0", "10.0.0.0/8:80x",
                                       "10.0.0.1/8",   "::1%lo",
                                       "/8",           NULL };
    struct name_rule rule;

    (void)state;
    for (const char *const *text = bad; *text; text++)
        if (!name_rule_parse_any(*text, &rule))
            fail_msg("'%s' passes", *text);
    assert_null(name_rule_parse_any("[fd00::]", &rule));
}

#define SECOND UINT64_C(1000000000)

static void what_is_taken_comes_back_with_time_and_with_the_place(void **state)
{
    const struct network_quota quota = { .open = 2,
                                         .per_minute = 3,
                                         .in_per_hour = 3600 };
    struct network_share *share = NULL;
    int fd = network_share_new(&share);
    struct network_hold a, b;
    uint64_t now = 9 * SECOND;

    (void)state;
    assert_true(fd >= 0);
    network_share_set(share, &quota);
    assert_true(network_hold_map(&a, fd, network_share_enter(share, 1), 1));
    assert_true(network_hold_map(&b, fd, network_share_enter(share, 2), 2));
    assert_true(network_hold_connection(&a, now));
    assert_true(network_hold_connection(&b, now));
    assert_false(network_hold_connection(&b, now)); /* two are open */
    network_share_leave(share, a.place); /* as after a kill: nothing was told */
    assert_true(network_hold_connection(&b, now));
    network_hold_closed(&b);
    assert_false(network_hold_connection(&b, now)); /* three in a minute */
    assert_true(network_hold_connection(&b, now + 21 * SECOND));
    assert_int_equal(network_share_enter(share, 3), a.place); /* somebody else's now */
    network_hold_closed(&b);
    assert_true(network_hold_connection(&b, now + 90 * SECOND));

    network_hold_pay(&b, NETWORK_IN, 3600, now);
    assert_false(network_hold_spent(&b, now));
    network_hold_pay(&b, NETWORK_IN, 10, now);
    assert_true(network_hold_spent(&b, now + 9 * SECOND));
    assert_false(network_hold_spent(&b, now + 11 * SECOND));
    network_hold_pay(&b, NETWORK_IN, UINT64_MAX, now); /* nobody is in debt for ever */
    assert_false(network_hold_spent(&b, now + 3601 * SECOND));
    (void)munmap(a.share, sizeof *a.share);
    (void)munmap(b.share, sizeof *b.share);
    network_share_free(share);
    (void)close(fd);
}

static bool is_public(const char *text)
{
    struct range r;

    assert_true(range_parse(text, &r));
    return address_is_public(&r.first);
}

static void addresses_of_the_hosts_own_are_not_public(void **state)
{
    static const char *const own[] = {
        "0.0.0.0",       "10.255.0.1",      "100.127.255.255",  "127.0.0.53",
        "168.63.129.16", "169.254.169.254", "172.31.0.1",       "192.168.1.1",
        "198.19.0.1",    "224.0.0.1",       "255.255.255.255",  "::",
        "::1",           "::ffff:1.1.1.1",  "64:ff9b::101:101", "64:ff9b:1::1",
        "100::1",        "2001::1",         "2001:db8::1",      "2002:101:101::1",
        "fc00::1",       "fe80::1",         "fec0::1",          "ff02::1",
        "3fff::1",
    };
    static const char *const open[] = { "1.1.1.1", "100.128.0.1", "172.32.0.1",
                                        "223.255.255.255", "2606:4700::1111" };

    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (is_public(own[i]))
            fail_msg("%s passes for public", own[i]);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        assert_true(is_public(open[i]));
}

static void random_bytes_never_break_the_readers(void **state)
{
    struct dns_question q;
    struct dns_answer a;
    enum dns_rcode rcode;
    uint8_t out[DNS_MESSAGE_MAX];

    (void)state;
    srandom(1);
    for (int i = 0; i < TRIES; i++) {
        size_t len = (size_t)random() % 600;
        uint8_t *m = malloc(len + 1); /* of exactly that size, for the sanitizer */

        assert_non_null(m);
        for (size_t k = 0; k < len; k++)
            m[k] = (uint8_t)(random() % 4 ? random() % 6 : random());
        if (len > 6 && i % 2)
            memcpy(m, "\0\7\1\0\0\1\0", 7);
        if (dns_read_question(m, len, &q, &rcode))
            (void)dns_write_answer(out, m, &q, rcode, i % 3 ? out : NULL);
        if (len > 6 && i % 2)
            m[2] = 0x81;
        (void)dns_read_answer(m, len, 7, "a.b", DNS_A, &a);
        assert_in_range(a.count, 0, 16);
        if (len && i % 5)
            m[0] = 0x16;
        if (len > 2)
            m[1] = 3;
        (void)first_bytes_judge(m, len, i % 7 == 0, "a.b", i % 2 ? 443 : 80);
        free(m);
    }
}

static enum first_verdict judge_text(const char *text, bool ended, uint16_t port)
{
    return first_bytes_judge((const uint8_t *)text, strlen(text), ended, "a.test",
                             port);
}

/* One byte passed for another protocol, and all that came behind it was not looked at.
 */
static void who_sends_a_head_byte_by_byte_is_judged_by_it(void **state)
{
    static const char head[] = "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n";

    (void)state;
    for (size_t len = 1; len + 1 < sizeof head; len++)
        assert_int_equal(
            first_bytes_judge((const uint8_t *)head, len, false, "a.test", 9000),
            FIRST_MORE);
    assert_int_equal(judge_text(head, false, 9000), FIRST_OTHER_NAME);
    assert_int_equal(
        judge_text("\r\n\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n", false, 9000),
        FIRST_OTHER_NAME);
    assert_int_equal(judge_text("\r\n", false, 9000), FIRST_MORE);
    assert_int_equal(judge_text("EHLO b.test\r\n", false, 9000), FIRST_GOOD);
    assert_int_equal(judge_text("PING\r\n", false, 9000), FIRST_GOOD);
    assert_int_equal(judge_text("SET a", false, 9000), FIRST_MORE);
    assert_int_equal(judge_text("SET a", true, 9000), FIRST_GOOD);
}

static void a_field_that_servers_read_differently_is_none(void **state)
{
    static const char *const bad[] = {
        "Host : b.test\r\n", "x: y\rHost: b.test\r\n", " b.test\r\n", "\tb.test\r\n",
        "nothing\r\n",       ": b.test\r\n",           NULL
    };
    char head[128];

    (void)state;
    for (const char *const *line = bad; *line; line++) {
        (void)snprintf(head, sizeof head, "GET / HTTP/1.1\r\nHost: a.test\r\n%s\r\n",
                       *line);
        if (judge_text(head, false, 80) != FIRST_NO_NAME)
            fail_msg("'%s' passes", *line);
    }
    assert_int_equal(
        judge_text("GET / HTTP/1.1\r\nHost: a.test\r\nx:\r\n\r\n", false, 80),
        FIRST_GOOD);
}

/* A ClientHello for NAME, with extension EXTRA before it; its length. */
static size_t hello(uint8_t *out, const char *name, unsigned extra)
{
    size_t n = strlen(name), at = 9 + 2 + 32;
    size_t extensions = (extra ? 4 : 0) + 4 + 5 + n;
    size_t body = 2 + 32 + 1 + 4 + 2 + 2 + extensions;
    const uint8_t head[] = { 0x16,
                             3,
                             1,
                             (uint8_t)((body + 4) >> 8),
                             (uint8_t)(body + 4),
                             1,
                             0,
                             (uint8_t)(body >> 8),
                             (uint8_t)body };

    memset(out, 0, 512);
    memcpy(out, head, sizeof head);
    memcpy(out + at, "\0\0\2\x13\1\1\0", 7);
    at += 7;
    out[at++] = (uint8_t)(extensions >> 8);
    out[at++] = (uint8_t)extensions;
    if (extra) {
        out[at++] = (uint8_t)(extra >> 8);
        out[at++] = (uint8_t)extra;
        at += 2;
    }
    at += 2;
    out[at + 1] = (uint8_t)(n + 5);
    out[at + 3] = (uint8_t)(n + 3);
    out[at + 6] = (uint8_t)n;
    memcpy(out + at + 7, name, n);
    return at + 7 + n;
}

static void a_client_hello_is_judged_by_its_one_name(void **state)
{
    uint8_t m[512];
    size_t len = hello(m, "a.test", 0);

    (void)state;
    assert_int_equal(first_bytes_judge(m, len, false, "a.test", 443), FIRST_GOOD);
    assert_int_equal(first_bytes_judge(m, len, false, "b.test", 443), FIRST_OTHER_NAME);
    for (size_t part = 1; part < len; part++) {
        assert_int_equal(first_bytes_judge(m, part, false, "a.test", 443), FIRST_MORE);
        assert_int_equal(first_bytes_judge(m, part, true, "a.test", 443),
                         FIRST_NO_NAME);
    }
    len = hello(m, "a.test", 0xfe0d); /* Encrypted Client Hello */
    assert_int_equal(first_bytes_judge(m, len, false, "a.test", 443), FIRST_NO_NAME);
    len = hello(m, "a.test", 10);
    assert_int_equal(first_bytes_judge(m, len, false, "a.test", 443), FIRST_GOOD);
    len = hello(m, "", 0);
    assert_int_equal(first_bytes_judge(m, len, false, "a.test", 443), FIRST_NO_NAME);
}

/* What a hostile guest says to a relay, and whether that breaks with it. */

static unsigned opened_count;

static void opened(void *context, struct relay_channel *channel, uint32_t port,
                   const char *name)
{
    int pair[2];

    (void)port;
    assert_non_null(name);
    opened_count++;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    (void)close(pair[1]);
    relay_attach(context, channel, pair[0]);
}

static const struct relay_events events = { .opened = opened };

static bool breaks(const void *bytes, size_t len)
{
    struct relay *r = calloc(1, sizeof *r);
    struct epoll_event e;
    int pair[2];
    bool broken;

    assert_non_null(r);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(relay_init(r, pair[0], true, 4, &events, r), 0);
    assert_int_equal(write(pair[1], bytes, len), len);
    assert_int_equal(epoll_wait(r->epoll_fd, &e, 1, 1000), 1);
    relay_event(r, e.data.u64, e.events);
    for (int i = 0; i < 20 && relay_turn(r); i++)
        ;
    broken = r->broken;
    relay_done(r);
    (void)close(pair[1]);
    free(r);
    return broken;
}

#define OPEN(id)             id, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 'a'
#define FRAME(id, type, len) id, 0, 0, 0, type, 0, 0, 0, len, 0, 0, 0

static void a_frame_that_does_not_fit_breaks_the_relay(void **state)
{
    static const uint8_t good[] = { OPEN(1), OPEN(3), FRAME(1, 2, 1), 'x',
                                    FRAME(1, 3, 0) };
    static const uint8_t late[] = { OPEN(1), FRAME(1, 5, 0), FRAME(1, 2, 1), 'x' };
    static const uint8_t twice[] = { OPEN(1), OPEN(1) };
    static const uint8_t even[] = { OPEN(2) };
    static const uint8_t above[] = { 1, 0,  0, 0x80, 1, 0, 0, 0, 9, 0,  0,
                                     0, 80, 0, 0,    0, 1, 0, 0, 0, 'a' };
    static const uint8_t unknown[] = { FRAME(7, 2, 1), 'x' };
    static const uint8_t after_end[] = { OPEN(1), FRAME(1, 3, 0), FRAME(1, 2, 1), 'x' };
    static const uint8_t credit[] = { OPEN(1), FRAME(1, 4, 4), 0, 0, 16, 0 };
    static const uint8_t empty[] = { OPEN(1), FRAME(1, 2, 0) };
    static const uint8_t type[] = { OPEN(1), FRAME(1, 9, 0) };
    static const uint8_t large[] = { OPEN(1), 1, 0, 0, 0, 2, 0, 0, 0, 1, 0x80, 0, 0 };
    static const uint8_t many[] = { OPEN(1), OPEN(3), OPEN(5),
                                    OPEN(7), OPEN(9), OPEN(11) };

    (void)state;
    assert_false(breaks(good, sizeof good));
    assert_false(breaks(late, sizeof late));
    assert_true(breaks(twice, sizeof twice));
    assert_true(breaks(even, sizeof even));
    assert_true(breaks(above, sizeof above));
    assert_true(breaks(unknown, sizeof unknown));
    assert_true(breaks(after_end, sizeof after_end));
    assert_true(breaks(credit, sizeof credit));
    assert_true(breaks(empty, sizeof empty));
    assert_true(breaks(type, sizeof type));
    assert_true(breaks(large, sizeof large));
    opened_count = 0;
    assert_false(breaks(many, sizeof many));
    assert_int_equal(opened_count, 4);
}

static void random_frames_never_do_more_than_break_a_relay(void **state)
{
    (void)state;
    srandom(2);
    for (int i = 0; i < TRIES / 20; i++) {
        uint8_t bytes[600];
        size_t at = 0;

        while (at + 40 < sizeof bytes) {
            uint8_t len = (uint8_t)(random() % 24);
            const uint8_t frame[] = { FRAME((uint8_t)(random() % 9),
                                            (uint8_t)(random() % 8), len) };

            memcpy(bytes + at, frame, sizeof frame);
            for (size_t k = 0; k < len; k++)
                bytes[at + sizeof frame + k] = (uint8_t)(random() % 3);
            at += sizeof frame + len;
        }
        (void)breaks(bytes, at);
    }
    assert_true(breaks("\377\377\377\377\377\377\377\377\377\377\377\377", 12));
}

static void an_account_comes_through_as_it_was(void **state)
{
    struct gate_account *in = calloc(1, sizeof *in), *out = calloc(1, sizeof *out);
    struct pack p = { 0 };

    (void)state;
    assert_true(in && out);
    in->count = 2;
    in->left_out = 3;
    in->bytes_in = 1u << 31;
    memcpy(in->records[1].name, "a.test", 7);
    in->records[1].port = 65535;
    in->records[1].verdict = GATE_LIMIT;
    gate_account_write(&p, in);
    for (size_t len = 0; len < p.len; len++) {
        struct unpack u = { .data = p.data, .len = len };

        assert_int_equal(gate_account_read(&u, out), -1);
    }
    assert_int_equal(
        gate_account_read(&(struct unpack){ .data = p.data, .len = p.len }, out), 0);
    assert_memory_equal(in, out, sizeof *in);
    assert_string_equal(gate_verdict_name(GATE_LIMIT), "limit");
    pack_done(&p);
    free(in);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_comes_back_with_time_and_with_the_place),
        cmocka_unit_test(a_rule_covers_what_it_allows_and_no_more),
        cmocka_unit_test(an_address_or_nonsense_is_no_rule),
        cmocka_unit_test(a_range_covers_ranges_alone_and_no_more_than_it_has),
        cmocka_unit_test(a_range_is_private_if_none_of_it_is_public),
        cmocka_unit_test(texts_that_are_nearly_ranges_are_none),
        cmocka_unit_test(addresses_of_the_hosts_own_are_not_public),
        cmocka_unit_test(random_bytes_never_break_the_readers),
        cmocka_unit_test(who_sends_a_head_byte_by_byte_is_judged_by_it),
        cmocka_unit_test(a_field_that_servers_read_differently_is_none),
        cmocka_unit_test(a_client_hello_is_judged_by_its_one_name),
        cmocka_unit_test(a_frame_that_does_not_fit_breaks_the_relay),
        cmocka_unit_test(random_frames_never_do_more_than_break_a_relay),
        cmocka_unit_test(an_account_comes_through_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
