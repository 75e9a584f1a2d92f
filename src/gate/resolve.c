/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names into addresses, by the name servers of the host, or those that the operator
 * names. Addresses are judged here, and a connection is made to the very address that
 * was: a name that changes its answer in between gains nothing.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "gate/gate.h"

#define TRY_NS     UINT64_C(2000000000)
#define TRIES      4 /* of all servers together, in turn */
#define REMEMBER_S 30u
#define SECOND     UINT64_C(1000000000)
#define DNS_PORT   53

struct query {
    int fd;
    uint16_t id;
    enum dns_type type;
    unsigned tries;
    uint64_t deadline_ns;
};

static const enum dns_type types[2] = { DNS_A, DNS_AAAA };

/* "ADDRESS", "ADDRESS:PORT" or "[ADDRESS]:PORT". */
static bool parse_server(const char *text, struct sockaddr_storage *out)
{
    const char *colon = strrchr(text, ':');
    bool bare_v6 = colon && strchr(text, ':') != colon && text[0] != '[';
    size_t len = colon && !bare_v6 ? (size_t)(colon - text) : strlen(text);
    unsigned long port = colon && !bare_v6 ? strtoul(colon + 1, NULL, 10) : DNS_PORT;
    struct address a = { 0 };
    char host[64];

    if (text[0] == '[' && len > 2 && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (len >= sizeof host || port == 0 || port > UINT16_MAX)
        return false;
    memcpy(host, text, len);
    host[len] = 0;
    a.v6 = strchr(host, ':') != NULL;
    if (inet_pton(a.v6 ? AF_INET6 : AF_INET, host, a.bytes) != 1)
        return false;
    (void)address_socket(&a, (uint16_t)port, out);
    return true;
}

static void add_server(struct gate *g, const char *text)
{
    if (g->server_count < SERVERS_MAX &&
        parse_server(text, &g->servers[g->server_count]))
        g->server_count++;
}

static void read_host_servers(struct gate *g)
{
    FILE *file = fopen("/etc/resolv.conf", "re");
    char line[512], address[64];

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "nameserver %63s", address) == 1)
            add_server(g, address);
    if (file)
        (void)fclose(file);
}

int resolve_servers(struct gate *g)
{
    for (size_t i = 0; g->config.resolvers[i]; i++)
        add_server(g, g->config.resolvers[i]);
    if (!g->config.resolvers[0])
        read_host_servers(g);
    return 0;
}

static void close_query(struct query *q)
{
    if (q->fd >= 0)
        (void)close(q->fd);
    q->fd = -1;
}

void resolve_stop(struct connection *c)
{
    for (unsigned i = 0; i < 2; i++) {
        if (c->queries[i])
            close_query(c->queries[i]);
        free(c->queries[i]);
        c->queries[i] = NULL;
    }
}

static bool send_query(struct gate *g, struct connection *c, struct query *q)
{
    const struct sockaddr_storage *to = &g->servers[q->tries % g->server_count];
    uint8_t message[DNS_MESSAGE_MAX];
    size_t len;
    uint32_t tag = c->channel->id << 1 | (q->type == DNS_AAAA);

    close_query(q);
    if (getrandom(&q->id, sizeof q->id, 0) != sizeof q->id)
        return false;
    q->fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    len = dns_write_question(message, q->id, c->name, q->type);
    return q->fd >= 0 &&
           connect(q->fd, (const struct sockaddr *)to,
                   to->ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                            : sizeof(struct sockaddr_in6)) == 0 &&
           send(q->fd, message, len, MSG_NOSIGNAL) == (ssize_t)len &&
           relay_watch(&g->relay, q->fd, EPOLLIN, relay_tag(TAG_QUERY, tag)) == 0;
}

/* The next server; false: none is left. */
static bool ask(struct gate *g, struct connection *c, struct query *q)
{
    while (g->server_count && q->tries < TRIES) {
        bool sent = send_query(g, c, q);

        q->tries++;
        q->deadline_ns = now_ns() + TRY_NS;
        if (sent)
            return true;
    }
    return false;
}

static void end_query(struct connection *c, unsigned which)
{
    close_query(c->queries[which]);
    free(c->queries[which]);
    c->queries[which] = NULL;
}

static void remember(struct gate *g, const struct connection *c, uint32_t ttl_s)
{
    struct cached *at = &g->cache[g->cache_next++ % CACHE_SIZE];

    (void)snprintf(at->name, sizeof at->name, "%s", c->name);
    memcpy(at->addresses, c->addresses, sizeof at->addresses);
    at->count = c->address_count;
    at->until_ns = now_ns() + (ttl_s < REMEMBER_S ? ttl_s : REMEMBER_S) * SECOND;
}

static bool recall(struct gate *g, struct connection *c)
{
    for (size_t i = 0; i < CACHE_SIZE; i++) {
        const struct cached *at = &g->cache[i];

        if (at->until_ns <= now_ns() || strcmp(at->name, c->name) != 0)
            continue;
        memcpy(c->addresses, at->addresses, sizeof c->addresses);
        c->address_count = at->count;
        return true;
    }
    return false;
}

bool resolve_lets_in(const struct gate *g, const struct address *a)
{
    return weaken("gate_public") || address_is_public(a) ||
           address_in(a, g->ranges, g->range_count);
}

/* Those that are let in. */
static void take_addresses(struct gate *g, struct connection *c,
                           const struct dns_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++) {
        struct address a = { .v6 = answer->addresses[i].v6 };

        memcpy(a.bytes, answer->addresses[i].bytes, sizeof a.bytes);
        address_unmap(&a);
        if (!resolve_lets_in(g, &a))
            c->refused_some = true;
        else if (c->address_count < ADDRESSES_MAX)
            c->addresses[c->address_count++] = a;
    }
    if (c->address_count)
        remember(g, c, answer->ttl_s);
}

/* One of the two questions is done. IPv4 comes first, and need not wait for the other.
 */
static void settle(struct gate *g, struct connection *c)
{
    if (!c->address_count && (c->queries[0] || c->queries[1]))
        return;
    resolve_stop(c);
    connection_resolved(g, c, c->refused_some ? GATE_PRIVATE : GATE_UNRESOLVED);
}

void resolve_start(struct gate *g, struct connection *c)
{
    c->stage = STAGE_RESOLVE;
    c->deadline_ns = NEVER;
    if (recall(g, c)) {
        connection_resolved(g, c, GATE_UNRESOLVED);
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        struct query *q = calloc(1, sizeof *q);

        c->queries[i] = q;
        if (!q)
            continue;
        q->fd = -1;
        q->type = types[i];
        if (!ask(g, c, q))
            end_query(c, i);
    }
    settle(g, c);
}

void resolve_event(struct gate *g, uint32_t channel_id, unsigned which)
{
    struct connection *c = connection_find(g, channel_id);
    struct query *q = c ? c->queries[which] : NULL;
    uint8_t message[4096];
    struct dns_answer answer;
    ssize_t n = q ? recv(q->fd, message, sizeof message, MSG_DONTWAIT) : -1;
    bool failed = n < 0 && errno != EAGAIN && errno != EINTR;

    if (!q || (n < 0 && !failed))
        return;
    if (!failed &&
        !dns_read_answer(message, (size_t)n, q->id, c->name, q->type, &answer))
        return; /* somebody else's; the right one may follow */
    if (failed || (answer.rcode != DNS_GOOD && answer.rcode != DNS_NO_NAME)) {
        if (ask(g, c, q))
            return;
        answer.count = 0;
    }
    take_addresses(g, c, &answer);
    end_query(c, which);
    settle(g, c);
}

void resolve_turn(struct gate *g, struct connection *c, uint64_t now)
{
    for (unsigned i = 0; i < 2 && c->stage == STAGE_RESOLVE; i++) {
        if (!c->queries[i] || c->queries[i]->deadline_ns > now ||
            ask(g, c, c->queries[i]))
            continue;
        end_query(c, i);
        settle(g, c);
    }
}

uint64_t resolve_wake_ns(const struct connection *c)
{
    uint64_t wake = NEVER;

    for (unsigned i = 0; i < 2; i++)
        if (c->queries[i] && c->queries[i]->deadline_ns < wake)
            wake = c->queries[i]->deadline_ns;
    return wake;
}
