/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "secrets/secrets.h"

bool pattern_make(struct pattern *p, const char *value, size_t len,
                  const char *placeholder)
{
    size_t usual = strlen(placeholder);

    *p = (struct pattern){ malloc(len + 1), malloc(len + 1), len };
    if (!p->value || !p->instead)
        return false;
    memcpy(p->value, value, len);
    p->value[len] = p->instead[len] = '\0';
    memset(p->instead, '*', len);
    memcpy(p->instead, placeholder, usual < len ? usual : len);
    return true;
}

static size_t pattern_count(const struct scrub *s)
{
    return s->held->count + s->own_count;
}

static const struct pattern *pattern_at(const struct scrub *s, size_t i)
{
    return i < s->held->count ? &s->held->all[i].pattern : &s->own[i - s->held->count];
}

/* How many of the last bytes may begin a value. */
static size_t open_end(const struct scrub *s)
{
    size_t most = 0;

    for (size_t i = 0; i < pattern_count(s); i++) {
        const struct pattern *p = pattern_at(s, i);
        size_t n = p->len - 1 < s->len ? p->len - 1 : s->len;

        for (; n > most; n--)
            if (memcmp(s->data + s->len - n, p->value, n) == 0)
                most = n;
    }
    return most;
}

/* Of values that overlap each is found, and no byte of any is told. */
static void hide(struct scrub *s, const struct pattern *p)
{
    const uint8_t *end = s->data + s->len;
    const uint8_t *at = s->data;

    while ((at = memmem(at, (size_t)(end - at), p->value, p->len))) {
        memcpy(s->told + (at - s->data), p->instead, p->len);
        at++;
    }
}

static int make_room(struct scrub *s, size_t len)
{
    uint8_t *data, *told;

    if (len <= s->cap)
        return 0;
    data = realloc(s->data, len);
    if (data)
        s->data = data;
    told = realloc(s->told, len);
    if (told)
        s->told = told;
    if (!data || !told)
        return -1;
    s->cap = len;
    return 0;
}

int scrub_add(struct scrub *s, const void *data, size_t len, bool end, struct str *out)
{
    size_t kept, gone;

    if (make_room(s, s->len + len) < 0)
        return -1;
    if (len) {
        memcpy(s->data + s->len, data, len);
        memcpy(s->told + s->len, data, len);
    }
    s->len += len;
    if (!s->len)
        return 0;
    for (size_t i = 0; i < pattern_count(s) && !weaken("scrub"); i++)
        hide(s, pattern_at(s, i));
    kept = end ? 0 : open_end(s);
    gone = s->len - kept;
    str_add(out, s->told, gone);
    memmove(s->data, s->data + gone, kept);
    memmove(s->told, s->told + gone, kept);
    s->len = kept;
    return str_ok(out) ? 0 : -1;
}

bool scrub_finds(const struct scrub *s, const char *text, size_t len)
{
    for (size_t i = 0; i < pattern_count(s); i++)
        if (memmem(text, len, pattern_at(s, i)->value, pattern_at(s, i)->len))
            return true;
    return false;
}

bool scrub_learn(struct scrub *s, const char *value, size_t len)
{
    size_t most = sizeof s->own / sizeof *s->own;

    for (size_t i = 0; i < s->own_count; i++)
        if (s->own[i].len == len && memcmp(s->own[i].value, value, len) == 0)
            return true;
    return len >= VALUE_MIN && s->own_count < most &&
           pattern_make(&s->own[s->own_count++], value, len, "");
}

void scrub_done(struct scrub *s)
{
    for (size_t i = 0; i < s->own_count; i++) {
        free(s->own[i].value);
        free(s->own[i].instead);
    }
    free(s->data);
    free(s->told);
    *s = (struct scrub){ 0 };
}
