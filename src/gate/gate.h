/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_GATE_GATE_H
#define VIAL_GATE_GATE_H

/* clang-format off */
/*
 * vial-gate: one vessel's way out, a process of its own on the host. It can connect to
 * others and do nothing else: no files, no rights, no programs; nobody can reach it but by
 * sockets that its opener hands to it.
 *
 *   descriptor 3: the vessel's guest (relay/relay.h), which is not trusted
 *   descriptor 4: whoever opened the vessel (below), who is
 *   descriptor 5: vial-secrets, where the vessel has secrets (src/secrets)
 *
 * A connection's life, as its guest asks for it:
 *
 *   OPEN -> the rules -> (its first bytes say the same name) -> addresses
 *        -> those that are public, or that the operator lets in -> connect -> bytes
 *
 * Files are named after what they own:
 *
 *   vial_gate       start, the loop, the end
 *   give_up_rights  before it reads the guest's first byte
 *   connection      a connection's life
 *   resolve         names into addresses, by the servers of the host
 *   first_bytes     the name that a client says: TLS and HTTP
 *   hand_over       connections that go to vial-secrets
 *   gate_limits     how much may be reached in all
 *   account         what was reached, for the result
 */
/* clang-format on */

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/dns.h"
#include "base/name_rule.h"
#include "base/network_share.h"
#include "base/public_address.h"
#include "gate/first_bytes.h"
#include "relay/relay.h"
#include "wire/gate_message.h"
#include "wire/weaken.h"

#define NEVER           UINT64_MAX
#define ADDRESSES_MAX   8  /* of a name that are tried */
#define SERVERS_MAX     3  /* name servers */
#define RANGES_MAX      64 /* that the operator lets in */
#define CACHE_SIZE      64 /* names whose addresses are remembered */
#define GATE_LINK_FD    3
#define GATE_OWNER_FD   4
#define GATE_SECRETS_FD 5

enum stage {
    STAGE_FIRST,   /* its client's first bytes are waited for */
    STAGE_RESOLVE, /* its addresses are */
    STAGE_CONNECT, /* the other side is */
    STAGE_OPEN,
    STAGE_OVER
};

struct query; /* resolve.c */

struct connection {
    struct relay_channel *channel;
    char name[NAME_LEN_MAX + 1];
    uint16_t port;
    bool incoming; /* the owner's, to a port of the vessel */
    bool judged;   /* its client has said the right name, or need not */
    bool counted;  /* as one that its caller has open */
    bool literal;  /* its program asked for an address, and NAME is that */
    enum stage stage;
    enum gate_verdict verdict;
    uint64_t started_ns, deadline_ns;
    struct address addresses[ADDRESSES_MAX];
    size_t address_count, address_next;
    bool refused_some; /* it has addresses that are not let in */
    bool refused_own;  /* one that was tried is this host's */
    bool denied_some;  /* it has addresses that are denied */
    int fd;            /* connecting */
    struct query *queries[2];
    struct connection *next;
};

struct cached {
    char name[NAME_LEN_MAX + 1];
    struct address addresses[ADDRESSES_MAX];
    size_t count;
    uint64_t until_ns;
};

/* What counts against config.limits: connections that the program makes. */
struct used {
    uint64_t connections;
    uint64_t bytes_in, bytes_out; /* of those that are over */
    double left;                  /* of a minute's connections */
    uint64_t filled_ns;
    struct network_hold hold; /* of what the caller may reach */
    uint64_t paid_in, paid_out;
};

/* A port of the host that leads to one of the vessel. */
struct published {
    int fd;
    uint16_t port;
};

struct gate {
    struct relay relay;
    struct gate_config config;
    struct name_rule *widest; /* that allow may have, as it was configured */
    struct name_rule *allow, *deny, *unchecked, *secrets;
    size_t widest_count, allow_count, deny_count, unchecked_count, secret_count;
    struct sockaddr_storage servers[SERVERS_MAX];
    size_t server_count;
    struct range ranges[RANGES_MAX];
    size_t range_count;
    struct connection *connections, *over; /* over: freed after this turn */
    struct cached cache[CACHE_SIZE];
    size_t cache_next;
    struct published published[GATE_LISTEN_MAX];
    size_t published_count;
    struct gate_account account;
    struct used used;
    bool owner_gone;
};

/* Tags of epoll. */
enum tag { TAG_OWNER = RELAY_OWN_TAG, TAG_CONNECT, TAG_QUERY, TAG_SECRETS, TAG_LISTEN };

uint64_t now_ns(void);

/* connection.c */
void connection_opened(void *context, struct relay_channel *channel, uint32_t port,
                       const char *name);
void connection_crowded(void *context, uint32_t port, const char *name);
void connection_held(void *context, struct relay_channel *channel);
void connection_closed(void *context, struct relay_channel *channel, bool reset);
void connection_refused(void *context, const char *name);
/* Has its addresses, or none: then WHY is why. */
void connection_resolved(struct gate *g, struct connection *c, enum gate_verdict why);
void connection_event(struct gate *g, uint32_t channel_id);
void connection_turn(struct gate *g); /* ends what has taken too long, or too much */
/* Ends those that are not allowed any more. */
void connection_narrow(struct gate *g);
uint64_t connection_wake_ns(const struct gate *g);
void connection_free_over(struct gate *g);
/* FD, which is taken, to PORT of the vessel. */
void connection_incoming(struct gate *g, int fd, uint16_t port);
/* FD, which is taken, listens for those who want to reach PORT. */
void connection_listen(struct gate *g, int fd, uint16_t port);
void connection_accept(struct gate *g, uint32_t listener);
struct connection *connection_find(struct gate *g, uint32_t channel_id);

/* resolve.c */
int resolve_servers(struct gate *g);
/* Whether any connection may lead there: it is public, or the operator lets it in. */
bool resolve_lets_in(const struct gate *g, const struct address *a);
void resolve_start(struct gate *g, struct connection *c);
void resolve_event(struct gate *g, uint32_t channel_id, unsigned which);
void resolve_turn(struct gate *g, struct connection *c, uint64_t now);
uint64_t resolve_wake_ns(const struct connection *c);
void resolve_stop(struct connection *c);

/* hand_over.c */
int secrets_watch(struct gate *g);
/* FD leads to C's host. If that one's requests get a secret, another is returned, which
 * leads to vial-secrets, who has FD now; -1: it cannot be. */
int secrets_take(struct gate *g, const struct connection *c, int fd);
void secrets_hear(struct gate *g); /* its verdicts */

/* gate_limits.c */
void limits_start(struct gate *g);
/* One more connection, which is counted, if GATE_OK; else GATE_LIMIT or GATE_QUOTA. */
enum gate_verdict limits_let(struct gate *g);
void limits_count(struct gate *g, uint64_t in, uint64_t out); /* of one that is over */
enum gate_verdict limits_turn(struct gate *g); /* not GATE_OK: all must end */
/* FD, borrowed: a caller's share (base/network_share.h), and our place there. */
void limits_join(struct gate *g, int fd, uint32_t place, uint32_t taker);

/* account.c */
void account_add(struct gate *g, const struct connection *c, uint64_t in, uint64_t out);
void account_refused(struct gate *g, const char *name);
/* Tells all that has been noted, and forgets it. */
void account_tell(struct gate *g);

#endif
