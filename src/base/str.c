/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for MORE bytes and the NUL. */
static bool reserve(struct str *s, size_t more)
{
    size_t need, cap;
    char *data;

    if (s->failed || more >= SIZE_MAX / 2 - s->len) {
        s->failed = true;
        return false;
    }
    need = s->len + more + 1;
    if (need <= s->cap)
        return true;
    cap = s->cap < 32 ? 32 : s->cap * 2;
    if (cap < need)
        cap = need;
    data = realloc(s->data, cap);
    if (!data) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->cap = cap;
    return true;
}

void str_add(struct str *s, const void *data, size_t len)
{
    if (!reserve(s, len))
        return;
    if (len > 0)
        memcpy(s->data + s->len, data, len);
    s->len += len;
    s->data[s->len] = '\0';
}

void str_move(struct str *to, struct str *from)
{
    struct str before = *to;

    if (to->len > 0 || to->failed || from->failed) {
        str_add(to, from->data, from->len);
        to->failed = to->failed || from->failed;
    } else {
        *to = *from;
        *from = before;
    }
    from->len = 0;
}

void str_puts(struct str *s, const char *text)
{
    str_add(s, text, strlen(text));
}

void str_putc(struct str *s, char c)
{
    str_add(s, &c, 1);
}

void str_vprintf(struct str *s, const char *format, va_list args)
{
    va_list again;
    int n;

    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0)
        s->failed = true;
    else if (reserve(s, (size_t)n)) {
        (void)vsnprintf(s->data + s->len, (size_t)n + 1, format, args);
        s->len += (size_t)n;
    }
}

void str_printf(struct str *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    str_vprintf(s, format, args);
    va_end(args);
}

bool str_ok(const struct str *s)
{
    return !s->failed;
}

char *str_take(struct str *s)
{
    char *data;

    if (!s->data)
        str_add(s, "", 0);
    if (s->failed) {
        str_done(s);
        return NULL;
    }
    data = s->data;
    *s = (struct str){ 0 };
    return data;
}

void str_done(struct str *s)
{
    free(s->data);
    *s = (struct str){ 0 };
}

/* Takes TEXT, which may be NULL for want of memory. */
static void push_owned(struct strv *v, char *text)
{
    size_t cap = v->cap < 8 ? 8 : v->cap * 2;
    char **items;

    if (v->failed || !text) {
        free(text);
        v->failed = true;
        return;
    }
    if (v->count + 2 > v->cap) {
        items = reallocarray(v->items, cap, sizeof *items);
        if (!items) {
            free(text);
            v->failed = true;
            return;
        }
        v->items = items;
        v->cap = cap;
    }
    v->items[v->count++] = text;
    v->items[v->count] = NULL;
}

void strv_push(struct strv *v, const char *text)
{
    if (!v->failed)
        push_owned(v, strdup(text));
}

const char *strv_keep(struct strv *v, const char *text)
{
    if (text)
        strv_push(v, text);
    return text && !v->failed ? v->items[v->count - 1] : NULL;
}

void strv_printf(struct strv *v, const char *format, ...)
{
    struct str s = { 0 };
    va_list args;

    if (v->failed)
        return;
    va_start(args, format);
    str_vprintf(&s, format, args);
    va_end(args);
    push_owned(v, str_take(&s));
}

void strv_copy(struct strv *v, const struct strv *from)
{
    size_t count = from->count; /* FROM may be V itself */

    for (size_t i = 0; i < count; i++)
        strv_push(v, from->items[i]);
    v->failed = v->failed || from->failed;
}

bool strv_has(const struct strv *v, const char *text)
{
    for (size_t i = 0; i < v->count; i++) {
        if (strcmp(v->items[i], text) == 0)
            return true;
    }
    return false;
}

bool strv_ok(const struct strv *v)
{
    return !v->failed;
}

void strv_done(struct strv *v)
{
    for (size_t i = 0; i < v->count; i++)
        free(v->items[i]);
    free(v->items);
    *v = (struct strv){ 0 };
}

int blob_set(struct blob *b, const void *data, size_t len)
{
    char *copy = len < SIZE_MAX ? malloc(len + 1) : NULL;

    if (!copy)
        return -1;
    if (len > 0)
        memcpy(copy, data, len);
    copy[len] = '\0';
    blob_done(b);
    b->data = copy;
    b->len = len;
    return 0;
}

void blob_done(struct blob *b)
{
    free(b->data);
    *b = (struct blob){ 0 };
}

bool str_eq(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    return strcmp(a, b) == 0;
}

bool str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}
