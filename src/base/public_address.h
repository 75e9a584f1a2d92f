/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_PUBLIC_ADDRESS_H
#define VIAL_BASE_PUBLIC_ADDRESS_H

/*
 * Addresses, ranges of them, and which are open to everybody: those of hosts on the
 * internet, and none that leads to this host or its own network. Pure.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_TEXT 46 /* bytes of an address as text, its end included */

struct address {
    bool v6;
    uint8_t bytes[16];
};

struct range {
    struct address first;
    unsigned bits;
};

bool address_is_public(const struct address *a);
bool address_in(const struct address *a, const struct range *ranges, size_t count);
/* One of IPv4 that is written as IPv6 becomes what it is. */
void address_unmap(struct address *a);
/* An address as it is written; a name of digits is none. */
bool address_parse(const char *text, struct address *out);
void address_write(const struct address *a, char out[ADDRESS_TEXT]);
/* Those of the machine that asks: they lead to no other. */
bool address_is_own(const struct address *a);
bool range_is_own(const struct range *r);

/* ADDRESS or ADDRESS/BITS. */
bool range_parse(const char *text, struct range *out);
/* The same with ports behind a colon; one of IPv6 that has some is
 * [ADDRESS/BITS]:PORTS. PORTS: where they begin in TEXT, or NULL. */
bool range_parse_ports(const char *text, struct range *out, const char **ports);
bool range_covers(const struct range *wide, const struct range *narrow);
/* None of its addresses is public. */
bool range_is_private(const struct range *r);
/* Its address has bits beyond BITS: somebody meant another one. */
bool range_is_ragged(const struct range *r);

bool address_is_of(const struct address *a, const struct sockaddr_storage *end);
socklen_t address_socket(const struct address *a, uint16_t port,
                         struct sockaddr_storage *out);
/* The address of END; false: it is of another family. */
bool address_read(const struct sockaddr *end, struct address *out);

#endif
