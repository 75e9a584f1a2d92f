/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "gate/gate.h"

#define FIRST_NS     UINT64_C(15000000000) /* for a client to say its name */
#define AT_ONCE      64                    /* accepted, before others have their turn */
#define LOOPBACK_MTU 65535 /* as the kernel tells it of 65536, by IPv4 */
#define CONNECT_NS   UINT64_C(10000000000) /* for one address to answer */

struct connection *connection_find(struct gate *g, uint32_t channel_id)
{
    struct connection *c = g->connections;

    while (c && c->channel->id != channel_id)
        c = c->next;
    return c;
}

static void give_up(struct gate *g, struct connection *c, enum gate_verdict why)
{
    c->verdict = why;
    relay_close(&g->relay, c->channel); /* connection_closed follows */
}

static struct connection *add(struct gate *g, struct relay_channel *channel,
                              uint16_t port, const char *name)
{
    struct connection *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    *c = (struct connection){ .channel = channel,
                              .port = port,
                              .started_ns = now_ns(),
                              .deadline_ns = NEVER,
                              .fd = -1,
                              .next = g->connections };
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    g->connections = c;
    channel->user = c;
    return c;
}

static bool is_allowed(const struct gate *g, const struct connection *c)
{
    if (weaken("gate_rules"))
        return true;
    if (c->literal)
        return name_rules_have_address(g->allow, g->allow_count, &c->addresses[0],
                                       c->port) &&
               !name_rules_deny_address(g->deny, g->deny_count, &c->addresses[0],
                                        c->port);
    return name_rules_have(g->allow, g->allow_count, c->name, c->port) &&
           !name_rules_deny(g->deny, g->deny_count, c->name, c->port);
}

static enum gate_verdict judge(struct gate *g, const struct connection *c)
{
    if (!is_allowed(g, c))
        return GATE_DENIED;
    if (c->literal &&
        (address_is_own(&c->addresses[0]) || !resolve_lets_in(g, &c->addresses[0])))
        return GATE_PRIVATE;
    return limits_let(g);
}

/* What asks for an address can say no name: it leads where it was allowed to. */
static void go_to_address(struct gate *g, struct connection *c)
{
    c->judged = true;
    connection_resolved(g, c, GATE_UNRESOLVED);
}

static void go_to_name(struct gate *g, struct connection *c)
{
    c->judged = weaken("gate_said") ||
                name_rules_have(g->unchecked, g->unchecked_count, c->name, c->port);
    c->channel->hold = !c->judged;
    if (c->judged || !first_bytes_wait(c->port)) {
        resolve_start(g, c);
        return;
    }
    c->stage = STAGE_FIRST;
    c->deadline_ns = c->started_ns + FIRST_NS;
}

/* TEXT as an account shows it, and whether that is an address; false: it is nothing
 * that a guest of ours asks for. */
static bool read_target(const char *text, char out[NAME_LEN_MAX + 1], struct address *a,
                        bool *literal)
{
    *literal = address_parse(text, a);
    if (*literal)
        address_write(a, out);
    else if (name_is_host(text, strlen(text)))
        (void)snprintf(out, NAME_LEN_MAX + 1, "%s", text);
    else
        return false;
    return true;
}

void connection_opened(void *context, struct relay_channel *channel, uint32_t port,
                       const char *name)
{
    struct gate *g = context;
    struct connection *c = NULL;
    char target[NAME_LEN_MAX + 1];
    struct address address;
    bool literal;

    if (read_target(name, target, &address, &literal))
        c = add(g, channel, (uint16_t)port, target);
    if (!c) {
        relay_close(&g->relay, channel);
        return;
    }
    c->literal = literal;
    if (literal)
        c->addresses[c->address_count++] = address;
    c->verdict = judge(g, c);
    if (c->verdict != GATE_OK) {
        give_up(g, c, c->verdict);
        return;
    }
    c->counted = true;
    if (c->literal)
        go_to_address(g, c);
    else
        go_to_name(g, c);
}

void connection_crowded(void *context, uint32_t port, const char *name)
{
    struct connection c = { .port = (uint16_t)port,
                            .verdict = GATE_LIMIT,
                            .started_ns = now_ns() };
    struct address address;

    if (!read_target(name, c.name, &address, &c.literal))
        (void)snprintf(c.name, sizeof c.name, "?");
    account_add(context, &c, 0, 0);
}

static void pass(struct gate *g, struct connection *c)
{
    c->judged = true;
    if (c->stage == STAGE_FIRST)
        resolve_start(g, c);
    else if (c->stage == STAGE_OPEN)
        relay_release(&g->relay, c->channel);
}

void connection_held(void *context, struct relay_channel *channel)
{
    struct gate *g = context;
    struct connection *c = channel->user;
    const struct relay_rest *said = &channel->own.rest;

    if (!c || c->judged)
        return;
    switch (first_bytes_judge(said->data ? said->data + said->at : NULL, said->len,
                              channel->other.ended, c->name, c->port)) {
    case FIRST_GOOD:
        pass(g, c);
        break;
    case FIRST_OTHER_NAME:
        give_up(g, c, GATE_NAME);
        break;
    case FIRST_NO_NAME:
        /* Where clients may speak second, one that says nothing at all is no liar. */
        if (said->len || first_bytes_wait(c->port))
            give_up(g, c, GATE_NO_NAME);
        else
            pass(g, c);
        break;
    case FIRST_MORE:
        break;
    }
}

static void open_channel(struct gate *g, struct connection *c)
{
    const int one = 1;
    int fd = c->fd;

    c->fd = -1;
    c->stage = STAGE_OPEN;
    c->deadline_ns = NEVER;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)epoll_ctl(g->relay.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    fd = secrets_take(g, c, fd);
    if (fd < 0) {
        give_up(g, c, GATE_LIMIT);
        return;
    }
    relay_attach(&g->relay, c->channel, fd);
    if (c->judged && !c->channel->gone)
        relay_release(&g->relay, c->channel);
}

/* Packets of this size go by the loopback alone. */
static bool goes_by_loopback(int fd, bool v6)
{
    int mtu = 0;
    socklen_t len = sizeof mtu;

    return getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu,
                      &len) < 0 ||
           mtu >= LOOPBACK_MTU;
}

/* Whether it leads to this host, which the kernel knows before the other side answers:
 * then both ends have one address; or ours is the first of an interface on which the
 * other one is a further one. */
static bool leads_home(const struct gate *g, int fd, const struct address *a)
{
    struct sockaddr_storage ours = { 0 };
    socklen_t len = sizeof ours;

    return !weaken("gate_home") && !address_in(a, g->ranges, g->range_count) &&
           (getsockname(fd, (struct sockaddr *)&ours, &len) < 0 ||
            address_is_of(a, &ours) || goes_by_loopback(fd, a->v6));
}

static bool start_connect(struct gate *g, struct connection *c)
{
    struct sockaddr_storage to;
    const struct address *a = &c->addresses[c->address_next++];
    socklen_t len = address_socket(a, c->port, &to);
    bool begun;

    c->refused_own = false;
    c->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return false;
    begun = connect(c->fd, (struct sockaddr *)&to, len) == 0 || errno == EINPROGRESS;
    c->refused_own = begun && leads_home(g, c->fd, a);
    if (begun && !c->refused_own &&
        relay_watch(&g->relay, c->fd, EPOLLOUT,
                    relay_tag(TAG_CONNECT, c->channel->id)) == 0)
        return true;
    (void)close(c->fd);
    c->fd = -1;
    return false;
}

/* Whoever denies a range means each name that leads there, too. */
static bool is_denied(const struct gate *g, const struct connection *c)
{
    return name_rules_deny_address(g->deny, g->deny_count,
                                   &c->addresses[c->address_next], c->port);
}

/* The next address; without one it is over. */
static void try_next(struct gate *g, struct connection *c, enum gate_verdict why)
{
    if (c->fd >= 0)
        (void)close(c->fd);
    c->fd = -1;
    while (c->address_next < c->address_count) {
        if (is_denied(g, c)) {
            c->address_next++;
            c->denied_some = true;
            continue;
        }
        c->deadline_ns = now_ns() + CONNECT_NS;
        if (start_connect(g, c))
            return;
    }
    if (c->denied_some)
        why = GATE_DENIED;
    give_up(g, c, c->refused_own ? GATE_PRIVATE : why);
}

void connection_resolved(struct gate *g, struct connection *c, enum gate_verdict why)
{
    if (!c->address_count) {
        give_up(g, c, why);
        return;
    }
    c->stage = STAGE_CONNECT;
    try_next(g, c, GATE_UNREACHABLE);
}

void connection_event(struct gate *g, uint32_t channel_id)
{
    struct connection *c = connection_find(g, channel_id);
    int error = 0;
    socklen_t len = sizeof error;

    if (!c || c->stage != STAGE_CONNECT || c->fd < 0)
        return;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0)
        open_channel(g, c);
    else
        try_next(g, c, error == ETIMEDOUT ? GATE_TIMEOUT : GATE_UNREACHABLE);
}

void connection_closed(void *context, struct relay_channel *channel, bool reset)
{
    struct gate *g = context;
    struct connection *c = channel->user;
    struct connection **at = &g->connections;
    uint64_t in = channel->from_fd, out = channel->to_fd;

    (void)reset;
    if (!c)
        return;
    secrets_hear(g); /* it may know why */
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    resolve_stop(c);
    if (c->fd >= 0)
        (void)close(c->fd);
    if (c->stage != STAGE_OPEN && c->verdict == GATE_OK)
        c->verdict = GATE_ABANDONED;
    if (!c->incoming)
        limits_count(g, in, out);
    if (c->counted)
        network_hold_closed(&g->used.hold);
    account_add(g, c, c->incoming ? out : in, c->incoming ? in : out);
    channel->user = NULL;
    c->stage = STAGE_OVER; /* callers above us may still look at it */
    c->next = g->over;
    g->over = c;
}

void connection_free_over(struct gate *g)
{
    while (g->over) {
        struct connection *c = g->over;

        g->over = c->next;
        free(c);
    }
}

void connection_refused(void *context, const char *name)
{
    account_refused(context, name);
}

void connection_incoming(struct gate *g, int fd, uint16_t port)
{
    struct relay_channel *channel = relay_open(&g->relay, fd, port, "");
    struct connection *c = NULL;

    if (!channel || channel->gone)
        return;
    c = add(g, channel, port, "localhost");
    if (!c) {
        relay_close(&g->relay, channel);
        return;
    }
    c->incoming = c->judged = true;
    c->stage = STAGE_OPEN;
}

void connection_listen(struct gate *g, int fd, uint16_t port)
{
    uint32_t i = (uint32_t)g->published_count;

    if (i == g->config.listeners ||
        relay_watch(&g->relay, fd, EPOLLIN, relay_tag(TAG_LISTEN, i)) < 0) {
        (void)close(fd);
        return;
    }
    g->published[g->published_count++] = (struct published){ fd, port };
}

/* As many as there is room for: relay_open closes those that are more. */
void connection_accept(struct gate *g, uint32_t listener)
{
    const struct published *p = &g->published[listener];
    const int one = 1;

    for (int i = 0; i < AT_ONCE; i++) {
        int fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
            return;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connection_incoming(g, fd, p->port);
    }
}

void connection_turn(struct gate *g)
{
    struct connection *next = NULL;
    uint64_t now = g->connections ? now_ns() : 0;
    enum gate_verdict much = limits_turn(g);

    for (struct connection *c = g->connections; c; c = next) {
        next = c->next;
        if (much != GATE_OK && !c->incoming)
            give_up(g, c, much);
        else if (c->stage == STAGE_RESOLVE)
            resolve_turn(g, c, now);
        else if (c->deadline_ns <= now && c->stage == STAGE_CONNECT)
            try_next(g, c, GATE_TIMEOUT);
        else if (c->deadline_ns <= now)
            give_up(g, c, GATE_NO_NAME);
    }
}

void connection_narrow(struct gate *g)
{
    struct connection *next = NULL;

    for (struct connection *c = g->connections; c; c = next) {
        next = c->next;
        if (!c->incoming && !is_allowed(g, c))
            give_up(g, c, GATE_DENIED);
    }
}

uint64_t connection_wake_ns(const struct gate *g)
{
    uint64_t wake = NEVER;

    for (const struct connection *c = g->connections; c; c = c->next) {
        uint64_t at = c->stage == STAGE_RESOLVE ? resolve_wake_ns(c) : c->deadline_ns;

        wake = at < wake ? at : wake;
    }
    return wake;
}
