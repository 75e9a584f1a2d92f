/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_HTTP_OUT_RULES_H
#define VIAL_HTTP_OUT_RULES_H

/*
 * Whom the daemon may call, for clients who name a URL: the operator's list. Pure; the
 * daemon judges URLs by it, and vial-tls, which makes the connection, names and
 * addresses again.
 *
 *   hooks.example.com          that name, ports 80 and 443 (base/name_rule.h)
 *   *.example.com:8443         every name below it, on that port
 *   10.1.2.3:8080, [fd00::3]   an address, for URLs that have it
 *   10.0.0.0/8                 a range; names may lead there, too
 *
 * A name leads to public addresses, and to those that the list has itself.
 */

#include "base/name_rule.h"
#include "base/public_address.h"

#define OUT_RULES_MAX 64u

struct out_range {
    struct range range;
    uint16_t port; /* 0: 80 and 443 */
};

struct out_rules {
    struct name_rule names[OUT_RULES_MAX];
    struct out_range ranges[OUT_RULES_MAX];
    size_t name_count, range_count;
};

/* NULL, or what is wrong with TEXT. */
const char *out_rules_add(struct out_rules *r, const char *text);

/* Whether HOST, a name in lower case or an address, may be called by that name. */
bool out_rules_have_host(const struct out_rules *r, const char *host, uint16_t port);
/* Whether a connection may go there. */
bool out_rules_have_address(const struct out_rules *r, const struct address *a,
                            uint16_t port);
/* The same for an address that is this host's own: only if the list says so. */
bool out_rules_name_address(const struct out_rules *r, const struct address *a,
                            uint16_t port);

#endif
