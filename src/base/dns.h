/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_DNS_H
#define VIAL_BASE_DNS_H

/*
 * Messages of the domain name system, as far as a gate needs them. Pure: the guest
 * answers with it what programs ask, and the gate asks real servers. Every byte read is
 * a stranger's: lengths are bounded, and compression only ever leads backwards.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name_rule.h"

#define DNS_MESSAGE_MAX 1232 /* what we send, and ask others to send at most */

enum dns_type { DNS_A = 1, DNS_AAAA = 28 };
enum dns_rcode {
    DNS_GOOD = 0,
    DNS_FORMAT = 1,
    DNS_FAILED = 2,
    DNS_NO_NAME = 3,
    DNS_UNKNOWN = 4,
    DNS_REFUSED = 5
};

struct dns_question {
    uint16_t id;
    uint16_t type;
    char name[NAME_LEN_MAX + 1]; /* lower case; "" if it is no host's name */
    size_t end;                  /* of the question, in its message */
};

/* False: there is nothing to answer. Otherwise *RCODE is DNS_GOOD, or why the question
 * cannot be answered. */
bool dns_read_question(const uint8_t *m, size_t len, struct dns_question *out,
                       enum dns_rcode *rcode);

/* The answer to the question Q of message M, into OUT: an address where IPV4 is not
 * NULL. Its length. */
size_t dns_write_answer(uint8_t out[DNS_MESSAGE_MAX], const uint8_t *m,
                        const struct dns_question *q, enum dns_rcode rcode,
                        const uint8_t *ipv4);

/* A question; its length. NAME is a host's name (name_is_host). */
size_t dns_write_question(uint8_t out[DNS_MESSAGE_MAX], uint16_t id, const char *name,
                          enum dns_type type);

struct dns_address {
    bool v6;
    uint8_t bytes[16];
};

struct dns_answer {
    struct dns_address addresses[16];
    size_t count;
    uint32_t ttl_s; /* the shortest */
    enum dns_rcode rcode;
};

/* False: this is no answer to that question. */
bool dns_read_answer(const uint8_t *m, size_t len, uint16_t id, const char *name,
                     enum dns_type type, struct dns_answer *out);

#endif
