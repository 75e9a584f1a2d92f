/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_NAME_RULE_H
#define VIAL_BASE_NAME_RULE_H

/*
 * One entry of an allow or deny list: which names, on which ports. Pure, and without
 * libraries: the guest, the gate and the host's policy judge by the same lines.
 *
 *   pypi.org                 that name, ports 80 and 443
 *   *.pythonhosted.org:443   every name below it, but not itself
 *   db.example.com:5432-5434 a short range of ports
 *   *                        every name
 *   10.0.0.0/8:5432          addresses, for programs that ask for no name; one of IPv6
 *   [fd00::/8]:443           that has ports is in brackets
 *
 * Names are lower case here. No name covers an address, and no range a name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/public_address.h"

#define NAME_LEN_MAX        253 /* of a host's name, without its final dot */
#define NAME_RULE_PORTS_MAX 16  /* in one range: each of them is listened on */

struct name_rule {
    char name[NAME_LEN_MAX + 1]; /* without "*."; "" with WILD: any */
    bool wild;
    bool is_range; /* of addresses, and NAME is "" */
    struct range range;
    uint16_t low, high; /* both 0: 80 and 443 */
};

/* NULL, or what is wrong with TEXT. */
const char *name_rule_parse(const char *text,
                            struct name_rule *out); /* of names alone */
const char *name_rule_parse_any(const char *text, struct name_rule *out);

/* Whether TEXT, LEN bytes, is a host's name as a rule may have it: lower case labels of
 * letters, digits, '-' and '_', of which the last is no number. */
bool name_is_host(const char *text, size_t len);

/* Its ports, one by one. */
unsigned name_rule_port_count(const struct name_rule *rule);
uint16_t name_rule_port(const struct name_rule *rule, unsigned n);

bool name_rule_has_name(const struct name_rule *rule, const char *name);
bool name_rule_has_port(const struct name_rule *rule, uint16_t port);
/* All that NARROW allows, WIDE allows. */
bool name_rule_covers(const struct name_rule *wide, const struct name_rule *narrow);
/* Whether any of COUNT rules allows both. */
bool name_rules_have(const struct name_rule *rules, size_t count, const char *name,
                     uint16_t port);

/* Whether any of COUNT rules denies both; one that says no ports denies all of them,
 * and PORT 0 asks for that. */
bool name_rules_deny(const struct name_rule *rules, size_t count, const char *name,
                     uint16_t port);

/* The same for an address, of which ranges alone know. */
bool name_rules_have_address(const struct name_rule *rules, size_t count,
                             const struct address *address, uint16_t port);
bool name_rules_deny_address(const struct name_rule *rules, size_t count,
                             const struct address *address, uint16_t port);

#endif
