/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dns.h"

#include <string.h>

#define HEADER    12u
#define LABEL_MAX 63u
#define NAMES_MAX 255u /* bytes of a name in a message */
#define CLASS_IN  1u
#define OWN_TTL_S 60u /* an address stays a name's for the vessel's life */
#define JUMPS_MAX 32

enum header_bit {
    QUERY_RESPONSE = 0x8000,
    OPCODE = 0x7800,
    RECURSION_DESIRED = 0x0100,
    RECURSION_AVAILABLE = 0x0080
};

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static void put16(uint8_t *p, unsigned value)
{
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static char lower(uint8_t c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

/* The name at AT, lower case, into NAME. Returns where the message goes on, or 0: this
 * is no name. A label that no host has leaves NAME empty. */
static size_t read_name(const uint8_t *m, size_t len, size_t at,
                        char name[NAME_LEN_MAX + 1])
{
    size_t end = 0, used = 0, jumps = 0;
    bool plain = true;

    name[0] = 0;
    while (at < len && m[at]) {
        uint8_t n = m[at];

        if ((n & 0xc0) == 0xc0) { /* always back, so that no loop can last */
            size_t to = at + 1 < len ? (size_t)(n & 0x3f) << 8 | m[at + 1] : len;

            end = end ? end : at + 2;
            if (to >= at || ++jumps > JUMPS_MAX)
                return 0;
            at = to;
            continue;
        }
        if (n > LABEL_MAX || at + 1 + n >= len || used + n + 1 > NAMES_MAX)
            return 0;
        plain = plain && used + n + (used ? 1u : 0u) <= NAME_LEN_MAX &&
                !memchr(m + at + 1, '.', n); /* it would pass for two labels */
        for (size_t i = 0; plain && i < n; i++) {
            if (i == 0 && used)
                name[used++] = '.';
            name[used++] = lower(m[at + 1 + i]);
        }
        at += 1u + n;
    }
    if (at >= len)
        return 0;
    name[plain ? used : 0] = 0;
    if (!name_is_host(name, plain ? used : 0))
        name[0] = 0;
    return end ? end : at + 1;
}

bool dns_read_question(const uint8_t *m, size_t len, struct dns_question *out,
                       enum dns_rcode *rcode)
{
    size_t at;

    *out = (struct dns_question){ .end = HEADER };
    if (len < HEADER || (get16(m + 2) & QUERY_RESPONSE))
        return false;
    out->id = get16(m);
    *rcode = DNS_UNKNOWN;
    if (get16(m + 2) & OPCODE)
        return true;
    *rcode = DNS_FORMAT;
    if (get16(m + 4) != 1 || get16(m + 6))
        return true;
    at = read_name(m, len, HEADER, out->name);
    if (!at || at + 4 > len || at + 4 > HEADER + NAMES_MAX + 4)
        return true;
    out->type = get16(m + at);
    out->end = at + 4;
    *rcode = get16(m + at + 2) == CLASS_IN ? DNS_GOOD : DNS_REFUSED;
    return true;
}

size_t dns_write_answer(uint8_t out[DNS_MESSAGE_MAX], const uint8_t *m,
                        const struct dns_question *q, enum dns_rcode rcode,
                        const uint8_t *ipv4)
{
    static const uint8_t record[] = { 0xc0, HEADER, 0, DNS_A,     0, CLASS_IN,
                                      0,    0,      0, OWN_TTL_S, 0, 4 };
    size_t at = q->end;

    memcpy(out, m, at);
    put16(out + 2, QUERY_RESPONSE | RECURSION_AVAILABLE |
                       (get16(m + 2) & (OPCODE | RECURSION_DESIRED)) | rcode);
    put16(out + 4, q->end > HEADER ? 1 : 0);
    put16(out + 6, ipv4 ? 1 : 0);
    memset(out + 8, 0, 4);
    if (!ipv4)
        return at;
    memcpy(out + at, record, sizeof record);
    memcpy(out + at + sizeof record, ipv4, 4);
    return at + sizeof record + 4;
}

/* Labels instead of dots. */
static size_t write_name(uint8_t *out, const char *name)
{
    size_t at = 0;

    while (*name) {
        size_t n = strcspn(name, ".");

        out[at++] = (uint8_t)n;
        memcpy(out + at, name, n);
        at += n;
        name += n + (name[n] == '.');
    }
    out[at++] = 0;
    return at;
}

size_t dns_write_question(uint8_t out[DNS_MESSAGE_MAX], uint16_t id, const char *name,
                          enum dns_type type)
{
    /* EDNS: an answer may be as long as what passes without fragments. */
    static const uint8_t options[] = {
        0, 0, 41, DNS_MESSAGE_MAX >> 8, DNS_MESSAGE_MAX & 0xff, 0, 0, 0, 0, 0, 0
    };
    size_t at = HEADER;

    memset(out, 0, HEADER);
    put16(out, id);
    put16(out + 2, RECURSION_DESIRED);
    put16(out + 4, 1);
    put16(out + 10, 1);
    at += write_name(out + at, name);
    put16(out + at, type);
    put16(out + at + 2, CLASS_IN);
    memcpy(out + at + 4, options, sizeof options);
    return at + 4 + sizeof options;
}

/* One record at AT; returns where the next begins, or 0: this is none. */
static size_t read_record(const uint8_t *m, size_t len, size_t at, enum dns_type type,
                          struct dns_answer *out)
{
    char owner[NAME_LEN_MAX + 1];
    size_t size = type == DNS_A ? 4 : 16;
    size_t data;

    at = read_name(m, len, at, owner);
    if (!at || at + 10 > len)
        return 0;
    data = get16(m + at + 8);
    if (at + 10 + data > len)
        return 0;
    if (get16(m + at) == type && get16(m + at + 2) == CLASS_IN && data == size &&
        out->count < sizeof out->addresses / sizeof *out->addresses) {
        struct dns_address *a = &out->addresses[out->count++];
        uint32_t ttl_s = get32(m + at + 4);

        *a = (struct dns_address){ .v6 = type == DNS_AAAA };
        memcpy(a->bytes, m + at + 10, size);
        out->ttl_s = ttl_s < out->ttl_s ? ttl_s : out->ttl_s;
    }
    return at + 10 + data;
}

bool dns_read_answer(const uint8_t *m, size_t len, uint16_t id, const char *name,
                     enum dns_type type, struct dns_answer *out)
{
    char asked[NAME_LEN_MAX + 1];
    size_t at;

    *out = (struct dns_answer){ .ttl_s = UINT32_MAX };
    if (len < HEADER || get16(m) != id || !(get16(m + 2) & QUERY_RESPONSE) ||
        get16(m + 4) != 1)
        return false;
    at = read_name(m, len, HEADER, asked);
    if (!at || at + 4 > len || strcmp(asked, name) != 0 || get16(m + at) != type)
        return false;
    out->rcode = (enum dns_rcode)(get16(m + 2) & 0xf);
    at += 4;
    for (unsigned n = get16(m + 6); n > 0 && at; n--)
        at = read_record(m, len, at, type, out);
    return true;
}
