/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_WIRE_PACK_H
#define VIAL_WIRE_PACK_H

/*
 * Payloads: little-endian integers and counted bytes, in order. The reader is
 * sticky: past the end it gives zeros and empty bytes, and one check of `bad`
 * (and of unread bytes) at the end tells.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack { /* a growing buffer; sticky on lack of memory */
    uint8_t *data;
    size_t len, cap;
    bool bad;
    bool lent; /* DATA is somebody's, who keeps it; more than CAP goes elsewhere */
};

void pack_u32(struct pack *p, uint32_t v);
void pack_u64(struct pack *p, uint64_t v);
void pack_bytes(struct pack *p, const void *data, size_t len); /* u32 length first */
void pack_text(struct pack *p, const char *text);              /* NULL as "" */
void pack_texts(struct pack *p, char *const *texts, size_t count); /* u32 count first */
void pack_raw(struct pack *p, const void *data, size_t len);       /* no length */
void pack_done(struct pack *p);

struct unpack {
    const uint8_t *data;
    size_t len, at;
    bool bad;
};

uint32_t unpack_u32(struct unpack *u);
uint64_t unpack_u64(struct unpack *u);
const uint8_t *unpack_bytes(struct unpack *u, size_t *len); /* borrowed */
/* Counted bytes without NUL inside, copied and terminated; NULL when bad. malloc'ed */
char *unpack_text(struct unpack *u);
/* The same of one that may be absent, and then travels as the empty one: NULL. */
char *unpack_optional(struct unpack *u);
/* NULL-terminated array of them; NULL when bad or more than MAX. */
char **unpack_texts(struct unpack *u, size_t max);
bool unpack_finished(const struct unpack *u); /* not bad, nothing unread */

#endif
