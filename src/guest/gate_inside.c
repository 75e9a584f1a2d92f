/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The vessel's side of its gate. A name that is allowed gets an address of its own out
 * of loopback's range when a program first asks for it, and listeners on its allowed
 * ports: so a connection says by itself which name was meant. All other names do not
 * exist. What is accepted goes to the gate, which judges it again.
 *
 * Ports of the vessel itself can be reached the other way round: the gate opens a
 * channel, and we connect to loopback.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/dns.h"
#include "guest/guest.h"
#include "relay/relay.h"

#define NAMES_MAX    128 /* that have an address; more would be a way to tell secrets */
#define LISTEN_MAX   256
#define NO_NAME      NAMES_MAX
#define PORTS_MAX    32  /* of one name */
#define AT_ONCE      64  /* questions, or connections, before others have their turn */
#define DNS_PEERS    8   /* connections that ask for names */
#define DNS_ASK_MAX  512 /* bytes of a question that we read */
#define RECENT       16  /* refused names that are not told again */
#define BASE_ADDRESS 0x7f400000u /* 127.64.0.0; .1 is the name server */
#define EVENTS       32

enum tag { TAG_UDP = RELAY_OWN_TAG, TAG_TCP, TAG_PEER, TAG_LISTENER };

struct listener {
    int fd;
    uint16_t port;
    unsigned name; /* its index; NO_NAME: of addresses */
    bool v6;
};

struct dns_peer {
    int fd; /* -1: free */
    size_t len;
    uint8_t bytes[2 + DNS_ASK_MAX];
};

struct guest_gate {
    struct relay relay;
    struct name_rule *allow, *deny;
    size_t allow_count, deny_count;
    char names[NAMES_MAX][NAME_LEN_MAX + 1];
    size_t name_count;
    struct listener listeners[LISTEN_MAX];
    size_t listener_count;
    int udp_fd, tcp_fd;
    struct dns_peer peers[DNS_PEERS];
    size_t peer_next;
    char recent[RECENT][NAME_LEN_MAX + 1];
    size_t recent_next;
    bool more; /* can be moved without waiting */
};

static struct sockaddr_in address_of(uint32_t host, uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons(port),
                                 .sin_addr.s_addr = htonl(host) };
}

/* Bound, watched, and listening where it is a stream; or -1. */
static int open_at(const struct guest_gate *gate, int type, const struct sockaddr *at,
                   socklen_t size, uint64_t tag)
{
    int fd = socket(at->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int one = 1;

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (at->sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    if (bind(fd, at, size) == 0 && (type != SOCK_STREAM || listen(fd, 128) == 0) &&
        relay_watch(&gate->relay, fd, EPOLLIN, tag) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static int open_socket(const struct guest_gate *gate, int type, uint32_t host,
                       uint16_t port, uint64_t tag)
{
    struct sockaddr_in at = address_of(host, port);

    return open_at(gate, type, (struct sockaddr *)&at, sizeof at, tag);
}

static void listen_on(struct guest_gate *gate, unsigned name, uint16_t port)
{
    uint32_t i = (uint32_t)gate->listener_count;
    int fd = -1;

    for (uint32_t k = 0; k < i; k++)
        if (gate->listeners[k].name == name && gate->listeners[k].port == port)
            return;
    if (i == LISTEN_MAX)
        return;
    fd = open_socket(gate, SOCK_STREAM, BASE_ADDRESS + 2 + name, port,
                     relay_tag(TAG_LISTENER, i));
    if (fd < 0)
        return; /* a program has it already: who connects reaches that */
    gate->listeners[gate->listener_count++] =
        (struct listener){ fd, port, name, false };
}

/* All addresses of a family, those that a program asks for without a name: what comes
 * to others is turned away (serve_address). */
static void listen_on_all(struct guest_gate *gate, bool v6, uint16_t port)
{
    struct sockaddr_storage at;
    uint32_t i = (uint32_t)gate->listener_count;
    const struct address any = { .v6 = v6 };
    socklen_t size = address_socket(&any, port, &at);
    int fd = -1;

    for (uint32_t k = 0; k < i; k++)
        if (gate->listeners[k].name == NO_NAME && gate->listeners[k].port == port &&
            gate->listeners[k].v6 == v6)
            return;
    if (i == LISTEN_MAX)
        return;
    fd = open_at(gate, SOCK_STREAM, (struct sockaddr *)&at, size,
                 relay_tag(TAG_LISTENER, i));
    if (fd >= 0)
        gate->listeners[gate->listener_count++] =
            (struct listener){ fd, port, NO_NAME, v6 };
}

static void listen_for_ranges(struct guest_gate *gate)
{
    for (size_t i = 0; i < gate->allow_count; i++) {
        const struct name_rule *rule = &gate->allow[i];

        for (unsigned n = 0; rule->is_range && n < name_rule_port_count(rule); n++)
            listen_on_all(gate, rule->range.first.v6, name_rule_port(rule, n));
    }
}

/* The ports of RULE that are not denied. */
static void listen_by(struct guest_gate *gate, unsigned name,
                      const struct name_rule *rule)
{
    for (unsigned n = 0; n < name_rule_port_count(rule) && n < PORTS_MAX; n++) {
        uint16_t port = name_rule_port(rule, n);

        if (weaken("gate_rules") ||
            !name_rules_deny(gate->deny, gate->deny_count, gate->names[name], port))
            listen_on(gate, name, port);
    }
}

static bool rule_has(const struct name_rule *rule, const char *name)
{
    return weaken("gate_rules") || name_rule_has_name(rule, name);
}

static bool is_allowed(const struct guest_gate *gate, const char *name)
{
    if (!weaken("gate_rules") && name_rules_deny(gate->deny, gate->deny_count, name, 0))
        return false;
    for (size_t i = 0; i < gate->allow_count; i++)
        if (rule_has(&gate->allow[i], name))
            return true;
    return false;
}

/* The index of NAME, which is allowed; NAMES_MAX: there is no room. */
static unsigned take_name(struct guest_gate *gate, const char *name)
{
    unsigned i = 0;

    if (weaken("gate_names") && gate->name_count == NAMES_MAX)
        gate->name_count = 0;
    while (i < gate->name_count && strcmp(gate->names[i], name) != 0)
        i++;
    if (i < gate->name_count || i == NAMES_MAX)
        return i;
    (void)snprintf(gate->names[i], sizeof gate->names[i], "%s", name);
    gate->name_count++;
    for (size_t k = 0; k < gate->allow_count; k++)
        if (rule_has(&gate->allow[k], name))
            listen_by(gate, i, &gate->allow[k]);
    return i;
}

static void tell_refused(struct guest_gate *gate, const char *name)
{
    for (size_t i = 0; i < RECENT; i++)
        if (strcmp(gate->recent[i], name) == 0)
            return;
    (void)snprintf(gate->recent[gate->recent_next++ % RECENT], sizeof gate->recent[0],
                   "%s", name);
    relay_refuse_name(&gate->relay, name);
}

/* The length of the answer to the LEN bytes at M; 0: none. */
static size_t answer(struct guest_gate *gate, const uint8_t *m, size_t len,
                     uint8_t out[DNS_MESSAGE_MAX])
{
    enum dns_rcode rcode = DNS_GOOD;
    struct dns_question q;
    uint32_t address;
    unsigned name;

    if (!dns_read_question(m, len, &q, &rcode))
        return 0;
    if (rcode == DNS_GOOD && (!q.name[0] || !is_allowed(gate, q.name)))
        rcode = DNS_NO_NAME;
    if (rcode == DNS_NO_NAME && q.name[0])
        tell_refused(gate, q.name);
    if (rcode != DNS_GOOD || q.type != DNS_A)
        return dns_write_answer(out, m, &q, rcode, NULL);
    name = take_name(gate, q.name);
    if (name == NAMES_MAX)
        return dns_write_answer(out, m, &q, DNS_FAILED, NULL);
    address = htonl(BASE_ADDRESS + 2 + name);
    return dns_write_answer(out, m, &q, DNS_GOOD, (const uint8_t *)&address);
}

static void serve_udp(struct guest_gate *gate)
{
    uint8_t in[DNS_ASK_MAX], out[DNS_MESSAGE_MAX];

    for (int i = 0; i < AT_ONCE; i++) {
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        ssize_t n =
            recvfrom(gate->udp_fd, in, sizeof in, 0, (struct sockaddr *)&from, &size);
        size_t len = n > 0 ? answer(gate, in, (size_t)n, out) : 0;

        if (n < 0)
            return;
        if (len)
            (void)sendto(gate->udp_fd, out, len, MSG_NOSIGNAL, (struct sockaddr *)&from,
                         size);
    }
}

static void drop_peer(struct dns_peer *peer)
{
    if (peer->fd >= 0)
        (void)close(peer->fd);
    peer->fd = -1;
    peer->len = 0;
}

/* The oldest gives way: nobody can keep others from asking. */
static void accept_peer(struct guest_gate *gate)
{
    uint32_t i = (uint32_t)(gate->peer_next % DNS_PEERS);
    int fd = accept4(gate->tcp_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    gate->peer_next++;
    drop_peer(&gate->peers[i]);
    gate->peers[i].fd = fd;
    if (relay_watch(&gate->relay, fd, EPOLLIN, relay_tag(TAG_PEER, i)) < 0)
        drop_peer(&gate->peers[i]);
}

static void serve_peer(struct guest_gate *gate, struct dns_peer *peer)
{
    uint8_t out[2 + DNS_MESSAGE_MAX];
    ssize_t n = recv(peer->fd, peer->bytes + peer->len, sizeof peer->bytes - peer->len,
                     MSG_DONTWAIT);
    size_t want, len;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    peer->len += n > 0 ? (size_t)n : 0;
    want = peer->len < 2 ? 2 : 2u + (size_t)(peer->bytes[0] << 8 | peer->bytes[1]);
    if (n > 0 && peer->len < want && want <= sizeof peer->bytes)
        return;
    len = n > 0 && peer->len == want ? answer(gate, peer->bytes + 2, want - 2, out + 2)
                                     : 0;
    out[0] = (uint8_t)(len >> 8);
    out[1] = (uint8_t)len;
    if (!len || send(peer->fd, out, 2 + len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        drop_peer(peer);
    peer->len = 0; /* another question may follow */
}

/* Nobody listens there: the client hears it at once. */
static void turn_away(int fd)
{
    const struct linger at_once = { .l_onoff = 1 };

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)close(fd);
}

/* The name that has address A and may be reached at PORT, or NULL: where all addresses
 * are listened on, no name can have a listener of its own. */
static const char *name_at(const struct guest_gate *gate, const struct address *a,
                           uint16_t port)
{
    uint32_t host;
    const char *name;

    if (a->v6)
        return NULL;
    memcpy(&host, a->bytes, sizeof host);
    host = ntohl(host) - BASE_ADDRESS - 2;
    name = host < gate->name_count ? gate->names[host] : NULL;
    return name && name_rules_have(gate->allow, gate->allow_count, name, port) &&
                   !name_rules_deny(gate->deny, gate->deny_count, name, port)
               ? name
               : NULL;
}

/* FD's own address is the one that its client asked for. */
static void serve_address(struct guest_gate *gate, int fd, uint16_t port)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    struct address a;
    char text[ADDRESS_TEXT];
    const char *target = NULL;

    if (getsockname(fd, (struct sockaddr *)&own, &size) == 0 &&
        address_read((struct sockaddr *)&own, &a)) {
        address_write(&a, text);
        if (address_is_own(&a))
            target = name_at(gate, &a, port);
        else if (name_rules_have_address(gate->allow, gate->allow_count, &a, port))
            target = text;
    }
    if (target)
        relay_hand_over(&gate->relay, fd, port, target);
    else
        turn_away(fd);
}

static void serve_listener(struct guest_gate *gate, uint32_t i)
{
    const struct listener *l = &gate->listeners[i];

    for (int k = 0; k < AT_ONCE; k++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
            return;
        if (l->name == NO_NAME)
            serve_address(gate, fd, l->port);
        else
            relay_hand_over(&gate->relay, fd, l->port, gate->names[l->name]);
    }
}

/* The gate wants to reach a port of the vessel. */
static void opened(void *context, struct relay_channel *channel, uint32_t port,
                   const char *name)
{
    struct guest_gate *gate = context;
    struct sockaddr_in at = address_of(INADDR_LOOPBACK, (uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void)name;
    if (fd >= 0 &&
        (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 || errno == EINPROGRESS)) {
        relay_attach(&gate->relay, channel, fd);
        return;
    }
    if (fd >= 0)
        (void)close(fd);
    relay_close(&gate->relay, channel);
}

static const struct relay_events events = { .opened = opened };

static void dispatch(struct guest_gate *gate, const struct epoll_event *e)
{
    uint32_t number = (uint32_t)e->data.u64;

    switch (e->data.u64 >> 32) {
    case TAG_UDP:
        serve_udp(gate);
        break;
    case TAG_TCP:
        accept_peer(gate);
        break;
    case TAG_PEER:
        if (gate->peers[number].fd >= 0)
            serve_peer(gate, &gate->peers[number]);
        break;
    case TAG_LISTENER:
        serve_listener(gate, number);
        break;
    default:
        relay_event(&gate->relay, e->data.u64, e->events);
    }
}

/* Without its gate nothing is reached any more; programs go on. */
static void close_all(struct guest_gate *gate)
{
    for (size_t i = 0; i < gate->listener_count; i++)
        (void)close(gate->listeners[i].fd);
    for (size_t i = 0; i < DNS_PEERS; i++)
        drop_peer(&gate->peers[i]);
    gate->listener_count = 0;
    if (gate->udp_fd >= 0)
        (void)close(gate->udp_fd);
    if (gate->tcp_fd >= 0)
        (void)close(gate->tcp_fd);
    relay_done(&gate->relay);
    free(gate->allow);
    free(gate->deny);
    free(gate);
}

void gate_turn(struct guest *g)
{
    struct guest_gate *gate = g->gate;
    struct epoll_event ready[EVENTS];
    int n = gate ? epoll_wait(gate->relay.epoll_fd, ready, EVENTS, 0) : 0;

    if (!gate)
        return;
    for (int i = 0; i < n; i++)
        dispatch(gate, &ready[i]);
    gate->more = relay_turn(&gate->relay) || n == EVENTS;
    if (!gate->relay.broken)
        return;
    close_all(gate);
    g->gate = NULL;
}

int gate_poll_fd(const struct guest *g)
{
    return g->gate ? g->gate->relay.epoll_fd : -1;
}

bool gate_wants_turn(const struct guest *g)
{
    return g->gate && g->gate->more;
}

static bool read_rules(struct unpack *u, struct name_rule **out, size_t *count)
{
    char **texts = unpack_texts(u, GATE_RULES_MAX);
    bool good = texts != NULL;
    size_t n = 0;

    while (texts && texts[n])
        n++;
    *out = calloc(n + 1, sizeof **out);
    for (*count = 0; *out && *count < n; (*count)++) {
        good = good && !name_rule_parse_any(texts[*count], &(*out)[*count]);
        free(texts[*count]);
    }
    free(texts);
    return good && *out;
}

void gate_start(struct guest *g, struct unpack *u, int link_fd)
{
    struct guest_gate *gate = calloc(1, sizeof *gate);
    uint32_t most;

    if (!gate || link_fd < 0 || g->gate)
        guest_end(g, 1);
    if (!read_rules(u, &gate->allow, &gate->allow_count) ||
        !read_rules(u, &gate->deny, &gate->deny_count))
        guest_end(g, 1);
    most = unpack_u32(u);
    if (!unpack_finished(u) ||
        relay_init(&gate->relay, link_fd, false, most, &events, gate) < 0)
        guest_end(g, 1);
    for (size_t i = 0; i < DNS_PEERS; i++)
        gate->peers[i].fd = -1;
    gate->udp_fd =
        open_socket(gate, SOCK_DGRAM, BASE_ADDRESS + 1, 53, relay_tag(TAG_UDP, 0));
    gate->tcp_fd =
        open_socket(gate, SOCK_STREAM, BASE_ADDRESS + 1, 53, relay_tag(TAG_TCP, 0));
    listen_for_ranges(gate);
    if (gate->udp_fd < 0 || gate->tcp_fd < 0)
        guest_end(g, 1); /* rather no vessel than one whose names lead elsewhere */
    g->gate = gate;
}
