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
/* ADDRESS or ADDRESS/BITS. */
bool range_parse(const char *text, struct range *out);

bool address_is_of(const struct address *a, const struct sockaddr_storage *end);
socklen_t address_socket(const struct address *a, uint16_t port,
                         struct sockaddr_storage *out);
/* The address of END; false: it is of another family. */
bool address_read(const struct sockaddr *end, struct address *out);

#endif
