/* SPDX-License-Identifier: Apache-2.0 */
#include "base/public_address.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* What no stranger's name may lead to: IANA's special-purpose registries, what is
 * another address in disguise, and Azure's own for its hosts. */
static const char *const not_public[] = {
    "0.0.0.0/8",      "10.0.0.0/8",      "100.64.0.0/10",   "127.0.0.0/8",
    "168.63.129.16",  "169.254.0.0/16",  "172.16.0.0/12",   "192.0.0.0/24",
    "192.0.2.0/24",   "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
    "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",   "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/3", /* multicast, and all above it */
};

/* Of IPv6 only this is public, without what follows: tunnels to IPv4, and documents. */
static const char *const public_v6 = "2000::/3";
static const char *const not_public_v6[] = {
    "2001::/23",     /* Teredo, ORCHID, and others of the protocols' own */
    "2001:db8::/32", /* documents */
    "2002::/16",     /* 6to4 */
    "3fff::/20",     /* documents */
};

static const char *const own[] = { "127.0.0.0/8", "0.0.0.0/8", "::/127" };

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8;
    uint8_t mask = (uint8_t)(0xff00 >> (bits % 8));

    return memcmp(a, b, whole) == 0 &&
           (!(bits % 8) || ((a[whole] ^ b[whole]) & mask) == 0);
}

static bool is_in(const struct address *a, const struct range *r)
{
    return a->v6 == r->first.v6 && same_bits(a->bytes, r->first.bytes, r->bits);
}

bool range_parse(const char *text, struct range *out)
{
    char address[64];
    size_t len = strcspn(text, "/");
    unsigned long most, bits;
    size_t digits;

    *out = (struct range){ 0 };
    if (len >= sizeof address)
        return false;
    memcpy(address, text, len);
    address[len] = 0;
    out->first.v6 = strchr(address, ':') != NULL;
    most = out->first.v6 ? 128 : 32;
    if (inet_pton(out->first.v6 ? AF_INET6 : AF_INET, address, out->first.bytes) != 1)
        return false;
    digits = text[len] ? strspn(text + len + 1, "0123456789") : 0;
    if (text[len] && (digits == 0 || digits > 3 || text[len + 1 + digits]))
        return false;
    bits = text[len] ? strtoul(text + len + 1, NULL, 10) : most;
    if (bits > most)
        return false;
    out->bits = (unsigned)bits;
    return true;
}

void address_unmap(struct address *a)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    struct address plain = { 0 };

    if (!a->v6 || memcmp(a->bytes, mapped, sizeof mapped) != 0)
        return;
    memcpy(plain.bytes, a->bytes + sizeof mapped, 4);
    *a = plain;
}

bool address_parse(const char *text, struct address *out)
{
    struct range r;

    if (strchr(text, '/') || !range_parse(text, &r))
        return false;
    *out = r.first;
    address_unmap(out);
    return true;
}

void address_write(const struct address *a, char out[ADDRESS_TEXT])
{
    if (!inet_ntop(a->v6 ? AF_INET6 : AF_INET, a->bytes, out, ADDRESS_TEXT))
        out[0] = '\0';
}

bool range_parse_ports(const char *text, struct range *out, const char **ports)
{
    bool bracket = text[0] == '[';
    const char *colon = strchr(text, ':');
    bool bare_v6 = !bracket && colon && strchr(colon + 1, ':');
    size_t len = bracket ? strcspn(text, "]") : strlen(text);
    char range[ADDRESS_TEXT + 8];

    if (!bracket && colon && !bare_v6)
        len = (size_t)(colon - text);
    if ((bracket && text[len] != ']') || len - bracket >= sizeof range)
        return false;
    memcpy(range, text + bracket, len - bracket);
    range[len - bracket] = '\0';
    text += len + bracket;
    if ((*text && *text != ':') || (bracket && !strchr(range, ':')))
        return false;
    *ports = *text ? text + 1 : NULL;
    return range_parse(range, out);
}

bool range_covers(const struct range *wide, const struct range *narrow)
{
    return wide->bits <= narrow->bits && is_in(&narrow->first, wide);
}

bool range_is_ragged(const struct range *r)
{
    unsigned bits = r->bits;

    for (unsigned most = r->first.v6 ? 128 : 32; bits < most; bits++)
        if (r->first.bytes[bits / 8] & (0x80u >> bits % 8))
            return true;
    return false;
}

static bool in_any(const struct address *a, const char *const *list, size_t count)
{
    struct range r;

    for (size_t i = 0; i < count; i++)
        if (!range_parse(list[i], &r) || is_in(a, &r))
            return true;
    return false;
}

bool address_is_public(const struct address *a)
{
    if (!a->v6)
        return !in_any(a, not_public, sizeof not_public / sizeof *not_public);
    return in_any(a, &public_v6, 1) &&
           !in_any(a, not_public_v6, sizeof not_public_v6 / sizeof *not_public_v6);
}

/* A range lies within one of those that are not public as its first address does,
 * unless it is the wider one. */
static bool lies_in_any(const struct range *r, const char *const *list, size_t count)
{
    struct range wide;

    for (size_t i = 0; i < count; i++)
        if (!range_parse(list[i], &wide) || range_covers(&wide, r))
            return true;
    return false;
}

bool range_is_private(const struct range *r)
{
    struct range open;

    if (!r->first.v6)
        return lies_in_any(r, not_public, sizeof not_public / sizeof *not_public);
    if (!range_parse(public_v6, &open))
        return true;
    return (!range_covers(&open, r) && !range_covers(r, &open)) ||
           lies_in_any(r, not_public_v6, sizeof not_public_v6 / sizeof *not_public_v6);
}

bool address_is_own(const struct address *a)
{
    return in_any(a, own, sizeof own / sizeof *own);
}

bool range_is_own(const struct range *r)
{
    return lies_in_any(r, own, sizeof own / sizeof *own);
}

bool address_in(const struct address *a, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_in(a, &ranges[i]))
            return true;
    return false;
}

bool address_is_of(const struct address *a, const struct sockaddr_storage *end)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)end;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)end;

    if (end->ss_family != (a->v6 ? AF_INET6 : AF_INET))
        return false;
    return a->v6 ? memcmp(a->bytes, &v6->sin6_addr, 16) == 0
                 : memcmp(a->bytes, &v4->sin_addr, 4) == 0;
}

socklen_t address_socket(const struct address *a, uint16_t port,
                         struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

    memset(out, 0, sizeof *out);
    if (a->v6) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        memcpy(&v6->sin6_addr, a->bytes, 16);
        return sizeof *v6;
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    memcpy(&v4->sin_addr, a->bytes, 4);
    return sizeof *v4;
}

bool address_read(const struct sockaddr *end, struct address *out)
{
    *out = (struct address){ .v6 = end->sa_family == AF_INET6 };
    if (out->v6)
        memcpy(out->bytes, &((const struct sockaddr_in6 *)(const void *)end)->sin6_addr,
               16);
    else if (end->sa_family == AF_INET)
        memcpy(out->bytes, &((const struct sockaddr_in *)(const void *)end)->sin_addr,
               4);
    return out->v6 || end->sa_family == AF_INET;
}
