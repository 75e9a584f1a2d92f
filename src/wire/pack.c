/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pack.h"

#include <stdlib.h>
#include <string.h>

/* A counted field holds at most this; it keeps lengths far from wrapping. */
#define FIELD_MAX ((size_t)1 << 30)

static uint8_t *enlarge(struct pack *p, size_t cap)
{
    uint8_t *data = realloc(p->lent ? NULL : p->data, cap);

    if (data && p->lent)
        memcpy(data, p->data, p->len);
    return data;
}

static uint8_t *grow(struct pack *p, size_t more)
{
    size_t cap = p->cap ? p->cap : 256;
    uint8_t *data;

    if (p->bad || more > FIELD_MAX || p->len > FIELD_MAX) {
        p->bad = true;
        return NULL;
    }
    while (cap - p->len < more)
        cap *= 2;
    if (cap != p->cap) {
        data = enlarge(p, cap);
        if (!data) {
            p->bad = true;
            return NULL;
        }
        p->data = data;
        p->cap = cap;
        p->lent = false;
    }
    p->len += more;
    return p->data + p->len - more;
}

void pack_raw(struct pack *p, const void *data, size_t len)
{
    uint8_t *at = grow(p, len);

    if (at && len)
        memcpy(at, data, len);
}

void pack_u32(struct pack *p, uint32_t v)
{
    uint8_t bytes[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16),
                         (uint8_t)(v >> 24) };

    pack_raw(p, bytes, sizeof bytes);
}

void pack_u64(struct pack *p, uint64_t v)
{
    pack_u32(p, (uint32_t)v);
    pack_u32(p, (uint32_t)(v >> 32));
}

void pack_bytes(struct pack *p, const void *data, size_t len)
{
    if (len > FIELD_MAX) {
        p->bad = true;
        return;
    }
    pack_u32(p, (uint32_t)len);
    pack_raw(p, data, len);
}

void pack_text(struct pack *p, const char *text)
{
    pack_bytes(p, text, text ? strlen(text) : 0);
}

void pack_texts(struct pack *p, char *const *texts, size_t count)
{
    pack_u32(p, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        pack_text(p, texts[i]);
}

void pack_done(struct pack *p)
{
    if (!p->lent)
        free(p->data);
    *p = (struct pack){ 0 };
}

/* The next LEN bytes, or NULL when they are not there. */
static const uint8_t *next(struct unpack *u, size_t len)
{
    if (u->bad || u->len - u->at < len) {
        u->bad = true;
        return NULL;
    }
    u->at += len;
    return u->data + u->at - len;
}

uint32_t unpack_u32(struct unpack *u)
{
    const uint8_t *at = next(u, 4);

    if (!at)
        return 0;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

uint64_t unpack_u64(struct unpack *u)
{
    uint64_t low = unpack_u32(u);
    uint64_t high = unpack_u32(u);

    return u->bad ? 0 : low | high << 32;
}

const uint8_t *unpack_bytes(struct unpack *u, size_t *len)
{
    size_t want = unpack_u32(u);
    const uint8_t *at = next(u, want);

    *len = at ? want : 0;
    return at;
}

char *unpack_text(struct unpack *u)
{
    size_t len;
    const uint8_t *bytes = unpack_bytes(u, &len);
    char *text;

    if (!bytes)
        return NULL;
    text = len && memchr(bytes, 0, len) ? NULL : malloc(len + 1);
    if (!text) {
        u->bad = true;
        return NULL;
    }
    if (len)
        memcpy(text, bytes, len);
    text[len] = 0;
    return text;
}

static void free_texts(char **texts)
{
    for (size_t i = 0; texts[i]; i++)
        free(texts[i]);
    free(texts);
}

char *unpack_optional(struct unpack *u)
{
    char *text = unpack_text(u);

    if (!text || *text)
        return text;
    free(text);
    return NULL;
}

char **unpack_texts(struct unpack *u, size_t max)
{
    size_t count = unpack_u32(u);
    char **texts;

    /* Each text has a length of 4 bytes: a count beyond that is a lie, and must
     * not size an allocation. */
    if (u->bad || count > max || count > (u->len - u->at) / 4) {
        u->bad = true;
        return NULL;
    }
    texts = calloc(count + 1, sizeof *texts);
    if (!texts) {
        u->bad = true;
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        texts[i] = unpack_text(u);
        if (!texts[i]) {
            free_texts(texts);
            return NULL;
        }
    }
    return texts;
}

bool unpack_finished(const struct unpack *u)
{
    return !u->bad && u->at == u->len;
}
