/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of a gate that read what strangers say, under sanitizers: the programs
 * themselves are built without. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

/* A connection over TCP, both ends. */
static void connect_pair(int pair[2])
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(pair[0], (struct sockaddr *)&at, len), 0);
    pair[1] = accept(listener, NULL, NULL);
    assert_true(pair[1] >= 0);
    (void)close(listener);
}

/* A gate's relay, what a guest has of it, and a server that it connects all to. */
static struct {
    struct relay relay;
    int link, server;
    struct relay_channel *channel;
    unsigned closed, resets;
    bool held; /* hold it first */
} d;

static void d_opened(void *context, struct relay_channel *channel, uint32_t port,
                     const char *name)
{
    int pair[2];

    assert_int_equal(port, 80);
    assert_string_equal(name, "a.test");
    connect_pair(pair);
    d.server = pair[1];
    d.channel = channel;
    channel->hold = d.held;
    if (!d.held)
        relay_attach(context, channel, pair[0]);
    else
        (void)close(pair[0]);
}

static void d_closed(void *context, struct relay_channel *channel, bool reset)
{
    (void)context;
    (void)channel;
    d.closed++;
    d.resets += reset;
}

static const struct relay_events d_events = { .opened = d_opened, .closed = d_closed };

static void d_begin(bool held)
{
    int pair[2];

    memset(&d, 0, sizeof d);
    d.server = -1;
    d.held = held;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(relay_init(&d.relay, pair[0], true, 2, &d_events, &d.relay), 0);
    d.link = pair[1];
}

static void d_end(void)
{
    relay_done(&d.relay);
    (void)close(d.link);
    if (d.server >= 0)
        (void)close(d.server);
}

/* Until nothing moves any more. */
static void d_run(void)
{
    struct epoll_event ready[8];
    bool more = true;
    int n = 1;

    while (!d.relay.broken && (more || n > 0)) {
        n = epoll_wait(d.relay.epoll_fd, ready, 8, more ? 0 : 1);
        for (int i = 0; i < n; i++)
            relay_event(&d.relay, ready[i].data.u64, ready[i].events);
        more = relay_turn(&d.relay);
    }
}

/* One DIRECT frame for channel ID with COUNT descriptors. */
static void send_direct(uint8_t id, const int *fds, size_t count)
{
    uint8_t frame[] = { FRAME(id, RELAY_DIRECT, 14),
                        80,
                        0,
                        0,
                        0,
                        6,
                        0,
                        0,
                        0,
                        'a',
                        '.',
                        't',
                        'e',
                        's',
                        't' };
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(4 * sizeof(int))] = { 0 };
    struct iovec iov = { frame, sizeof frame };
    struct msghdr m = { .msg_iov = &iov,
                        .msg_iovlen = 1,
                        .msg_control = count ? room : NULL,
                        .msg_controllen = count ? CMSG_SPACE(count * sizeof(int)) : 0 };

    if (count) {
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    assert_int_equal(sendmsg(d.link, &m, 0), sizeof frame);
}

static bool direct_breaks(const int *fds, size_t count)
{
    bool broken;

    d_begin(false);
    send_direct(1, fds, count);
    d_run();
    broken = d.relay.broken;
    d_end();
    return broken;
}

static void what_is_handed_over_must_be_one_connection(void **state)
{
    int program[2], local[2];
    const int udp = socket(AF_INET, SOCK_DGRAM, 0);

    (void)state;
    connect_pair(program);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, local), 0);
    assert_false(direct_breaks((int[]){ program[1] }, 1));
    assert_true(direct_breaks(NULL, 0));
    assert_true(direct_breaks((int[]){ program[1], program[1] }, 2));
    assert_true(direct_breaks(local, 1));
    assert_true(direct_breaks(&udp, 1));
    (void)close(udp);
    for (int i = 0; i < 2; i++) {
        (void)close(program[i]);
        (void)close(local[i]);
    }
}

static void a_connection_that_was_handed_over_has_no_frames(void **state)
{
    static const uint8_t data[] = { FRAME(1, 2, 1), 'x' };
    static const uint8_t credit[] = { FRAME(1, 4, 4), 1, 0, 0, 0 };
    static const uint8_t close_it[] = { FRAME(1, 5, 0) };
    const struct {
        const uint8_t *bytes;
        size_t len;
    } all[] = { { data, sizeof data },
                { credit, sizeof credit },
                { close_it, sizeof close_it } };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        int program[2];

        connect_pair(program);
        d_begin(false);
        send_direct(1, &program[1], 1);
        assert_int_equal(write(d.link, all[i].bytes, all[i].len), all[i].len);
        d_run();
        assert_true(d.relay.broken);
        d_end();
        (void)close(program[0]);
        (void)close(program[1]);
    }
}

/* Reads LEN bytes of FD, each of which must be WHAT; the relay has its turns meanwhile.
 */
static void expect_all(int fd, uint8_t what, size_t len)
{
    uint8_t bytes[65536];

    while (len) {
        ssize_t n =
            recv(fd, bytes, sizeof bytes < len ? sizeof bytes : len, MSG_DONTWAIT);

        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(bytes[i], what);
        len -= n > 0 ? (size_t)n : 0;
        if (n < 0)
            d_run();
        assert_int_not_equal(n, 0);
    }
}

static void expect_end(int fd)
{
    char byte;
    ssize_t n;

    while ((n = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
        d_run();
    assert_int_equal(n, 0);
}

static size_t fill(int fd, uint8_t with)
{
    uint8_t bytes[65536];
    size_t sent = 0;
    ssize_t n;

    memset(bytes, with, sizeof bytes);
    do {
        n = send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        d_run();
    } while (n > 0);
    return sent;
}

static void what_is_handed_over_passes_whole_both_ways_and_ends(void **state)
{
    int program[2];
    size_t up, down;

    (void)state;
    connect_pair(program);
    d_begin(false);
    send_direct(1, &program[1], 1);
    (void)close(program[1]);
    d_run();
    up = fill(program[0], 'u'); /* nobody reads either, and nobody waits */
    down = fill(d.server, 'd');
    assert_true(up > RELAY_PIECE && down > RELAY_PIECE);
    assert_true(d.channel->own.rest.cap <= RELAY_PIECE);
    assert_true(d.channel->other.rest.cap <= RELAY_PIECE);
    expect_all(d.server, 'u', up);
    expect_all(program[0], 'd', down);
    assert_int_equal(d.relay.spare, RELAY_SPARE);
    assert_int_equal(d.channel->to_fd, up);
    assert_int_equal(d.channel->from_fd, down);
    (void)shutdown(program[0], SHUT_WR);
    d_run();
    expect_end(d.server);
    assert_int_equal(write(d.server, "x", 1), 1); /* it may still answer */
    (void)shutdown(d.server, SHUT_WR);
    d_run();
    expect_all(program[0], 'x', 1);
    expect_end(program[0]);
    assert_int_equal(d.closed, 1);
    assert_int_equal(d.resets, 0);
    assert_false(d.relay.broken);
    d_end();
    (void)close(program[0]);
}

/* How many descriptors the relay's epoll knows. */
static size_t count_watched(void)
{
    char path[64], line[256];
    size_t count = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", d.relay.epoll_fd);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strncmp(line, "tfd:", 4) == 0;
    (void)fclose(file);
    return count;
}

static void a_connection_of_which_a_guest_keeps_a_copy_is_watched_no_longer(
    void **state)
{
    int program[2];
    size_t before;

    (void)state;
    connect_pair(program);
    d_begin(true);
    before = count_watched();
    send_direct(1, &program[1], 1);
    d_run();
    assert_true(count_watched() > before);
    relay_close(&d.relay, d.channel);
    d_run();
    assert_int_equal(d.closed, 1);
    assert_int_equal(count_watched(), before);
    d_end();
    (void)close(program[0]);
    (void)close(program[1]);
}

static void what_is_held_of_a_connection_is_at_most_a_window(void **state)
{
    int program[2];

    (void)state;
    connect_pair(program);
    d_begin(true);
    send_direct(1, &program[1], 1);
    (void)close(program[1]);
    d_run();
    assert_true(fill(program[0], 'u') > RELAY_WINDOW);
    while (d.channel->own.rest.len < RELAY_WINDOW)
        d_run();
    assert_int_equal(d.channel->own.rest.len, RELAY_WINDOW);
    relay_close(&d.relay, d.channel);
    d_run();
    assert_int_equal(d.closed, 1);
    d_end();
    errno = 0;
    assert_int_equal(send(program[0], "x", 1, MSG_NOSIGNAL), -1); /* it was told */
    assert_true(errno == ECONNRESET || errno == EPIPE);
    (void)close(program[0]);
}

/* A guest's relay at the other end of the gate's link. */
static void guest_begin(struct relay *guest, bool full)
{
    static const struct relay_events none = { 0 };
    int pair[2];

    memset(&d, 0, sizeof d);
    d.server = d.link = -1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(relay_init(&d.relay, pair[0], true, 2, &d_events, &d.relay), 0);
    assert_int_equal(relay_init(guest, pair[1], false, 2, &none, guest), 0);
    while (full && send(pair[1], (const uint8_t[]){ FRAME(0, 6, 5), 1, 0, 0, 0, 'n' },
                        17, 0) == 17)
        ; /* a name that was refused, over and over */
}

static void guest_run(struct relay *guest)
{
    struct epoll_event ready[8];
    bool more = true;
    int n = 1;

    while (more || n > 0) {
        n = epoll_wait(guest->epoll_fd, ready, 8, 0);
        for (int i = 0; i < n; i++)
            relay_event(guest, ready[i].data.u64, ready[i].events);
        more = relay_turn(guest);
        d_run();
    }
}

static void a_guest_hands_over_or_sends_frames_and_bytes_come_either_way(void **state)
{
    struct relay *guest = calloc(1, sizeof *guest);

    (void)state;
    assert_non_null(guest);
    for (int full = 0; full < 2; full++) {
        int program[2];
        char byte = 0;

        guest_begin(guest, full);
        connect_pair(program);
        relay_hand_over(guest, program[1], 80, "a.test");
        assert_int_equal(guest->count, full); /* or the guest has to move its bytes */
        assert_int_equal(write(program[0], "u", 1), 1);
        while (d.server < 0 || recv(d.server, &byte, 1, MSG_DONTWAIT) < 0)
            guest_run(guest);
        assert_int_equal(byte, 'u');
        assert_int_equal(d.channel->other.fd >= 0, !full);
        assert_int_equal(write(d.server, "d", 1), 1);
        while (recv(program[0], &byte, 1, MSG_DONTWAIT) < 0)
            guest_run(guest);
        assert_int_equal(byte, 'd');
        assert_false(d.relay.broken || guest->broken);
        relay_done(guest);
        relay_done(&d.relay);
        (void)close(d.server);
        (void)close(program[0]);
    }
    free(guest);
}

static void what_was_said_before_a_guest_ends_still_goes(void **state)
{
    int program[2];

    (void)state;
    connect_pair(program);
    d_begin(false);
    send_direct(1, &program[1], 1);
    d_run();
    assert_int_equal(write(program[0], "u", 1), 1);
    (void)close(program[0]);
    assert_int_equal(
        poll(&(struct pollfd){ .fd = program[1], .events = POLLRDHUP }, 1, -1), 1);
    (void)close(program[1]);
    (void)shutdown(d.link, SHUT_RDWR);
    d_run();
    assert_true(d.relay.broken);
    expect_all(d.server, 'u', 1);
    expect_end(d.server);
    d_end();
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
        cmocka_unit_test(what_is_handed_over_must_be_one_connection),
        cmocka_unit_test(a_connection_that_was_handed_over_has_no_frames),
        cmocka_unit_test(what_is_handed_over_passes_whole_both_ways_and_ends),
        cmocka_unit_test(
            a_connection_of_which_a_guest_keeps_a_copy_is_watched_no_longer),
        cmocka_unit_test(what_is_held_of_a_connection_is_at_most_a_window),
        cmocka_unit_test(a_guest_hands_over_or_sends_frames_and_bytes_come_either_way),
        cmocka_unit_test(what_was_said_before_a_guest_ends_still_goes),
        cmocka_unit_test(an_account_comes_through_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
