/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRE_GATE_MESSAGE_H
#define VIAL_WIRE_GATE_MESSAGE_H

/*
 * What the opener of a vessel and its gate say to each other: frames on channel 0, over
 * a stream of their own.
 *
 *   to the gate      GATE_CONFIG, once and first
 *                    GATE_ASK: tell what was reached since the last time
 *                    GATE_ALLOW: texts, what is allowed from now on, of what it was
 *                    configured with
 *                    GATE_PORT, with a descriptor: u32 port of the vessel, which the
 *                    descriptor's peer reaches from now on
 *                    GATE_SHARE, with a descriptor: the caller's share
 *                    (base/network_share.h), u32 place, u32 taker
 *                    GATE_LISTEN, with a socket that listens: u32 port of the vessel,
 *                    which those reach that connect to it
 *   to the opener    GATE_ACCOUNT, after each GATE_ASK, and once the guest is gone
 *
 * The guest's part of the configuration goes to it in WIRE_GATE.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/pack.h"

#define GATE_RULES_MAX   512 /* of each list */
#define GATE_TEXT_MAX    300 /* bytes of one */
#define GATE_RECORDS_MAX 128 /* connections that an account tells one by one */
#define GATE_LISTEN_MAX  64  /* ports of the host that lead into the vessel */
#define GATE_FRAME_MAX   (256u << 10)

enum gate_type {
    GATE_CONFIG = 1,
    GATE_ASK = 2,
    GATE_PORT = 3,
    GATE_ACCOUNT = 4,
    GATE_ALLOW = 7, /* behind those of secrets_type */
    GATE_SHARE = 8,
    GATE_LISTEN = 9
};

/* To vial-secrets (src/secrets), once and first: texts, the lines of secrets
 * (model/secret.h), and the bytes of each one's value; and its answer: text, the
 * certificate of the vessel's authority, and text, why there is none. */
enum secrets_type { SECRETS_CONFIG = 5, SECRETS_READY = 6 };

#define SECRETS_CONNECTIONS 64 /* at once */

/* From the gate to it, with two descriptors: the client, and the host NAME. Both are
 * programs of one build, hence a struct as it is. */
struct secrets_hand {
    uint32_t id;
    uint16_t port;
    char name[256];
};

/* And back: how connection ID ended, if not well. */
struct secrets_word {
    uint32_t id, verdict;
};

/* Of all that a vessel reaches, while it is there; 0: without an end. */
struct gate_limits {
    uint64_t connections, per_minute, bytes_in, bytes_out;
};

struct gate_config {
    char **allow, **deny;           /* as name_rule.h; NULL-terminated */
    char **unchecked;               /* whose first bytes need not say the name */
    char **resolvers, **private_in; /* "ADDRESS:PORT"; "ADDRESS/BITS" */
    char **secrets;                 /* rules: these go to vial-secrets */
    uint32_t connections;           /* at once */
    uint32_t listeners;             /* that will come by GATE_LISTEN */
    struct gate_limits limits;
};

void gate_config_write(struct pack *p, const struct gate_config *c);
int gate_config_read(struct unpack *u, struct gate_config *out); /* 0 or -1; copies */
void gate_config_done(struct gate_config *c);

/* How a connection ended, in the words of results. */
#define GATE_VERDICTS(V)                                                               \
    V(OK, "ok")         /* it was made */                                              \
    V(DENIED, "denied") /* the name or port is not allowed */                          \
    V(PRIVATE,                                                                         \
      "private_address")        /* the name leads to an address that is not public */  \
    V(NAME, "other_name")       /* its client said another name */                     \
    V(NO_NAME, "no_name")       /* its client said none, or hid it */                  \
    V(UNRESOLVED, "unresolved") /* the name has no address */                          \
    V(UNREACHABLE, "unreachable") /* nobody answers there */                           \
    V(TIMEOUT, "timeout")         /* nobody answered in time */                        \
    V(ABANDONED, "abandoned")     /* its client left before it was made */             \
    V(LIMIT, "limit")             /* too many, or too much */                          \
    V(QUOTA, "quota")             /* the same, of all the caller's vessels */          \
    V(CERTIFICATE, "certificate") /* that of a secret's host is not trusted */         \
    V(REQUEST, "request")   /* a request with a secret is refused by its rules */      \
    V(RESPONSE, "response") /* an answer to one cannot be passed on */

enum gate_verdict {
#define V(id, text) GATE_##id,
    GATE_VERDICTS(V)
#undef V
        GATE_VERDICT_COUNT
};

const char *gate_verdict_name(uint32_t verdict);

struct gate_record {
    char name[256];
    uint16_t port; /* 0: it was only looked up */
    uint32_t verdict;
    bool incoming;
    uint64_t bytes_in, bytes_out; /* to the vessel, and from it */
    uint64_t ms;
    uint64_t times; /* of a refusal: how often */
};

struct gate_account {
    struct gate_record records[GATE_RECORDS_MAX];
    size_t count;
    uint64_t left_out;
    uint64_t connections, refused; /* all, those left out included */
    uint64_t bytes_in, bytes_out;
    bool limited;        /* one of gate_limits, or the caller's quota, was reached */
    uint64_t over_quota; /* refused, or ended, for that quota */
};

void gate_account_write(struct pack *p, const struct gate_account *a);
int gate_account_read(struct unpack *u, struct gate_account *out); /* 0 or -1 */

#endif
