/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_STR_H
#define VIAL_BASE_STR_H

/*
 * A growing byte string and a growing list of strings. Both are sticky: an
 * append after an allocation failure does nothing, and one check at the end
 * (str_ok, strv_ok) tells. Zero-initialised is empty. `data` is always
 * NUL-terminated once anything was appended.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct str {
    char *data;
    size_t len, cap;
    bool failed;
};

void str_add(struct str *s, const void *data, size_t len);
void str_puts(struct str *s, const char *text);
void str_putc(struct str *s, char c);
__attribute__((format(printf, 2, 3))) void str_printf(struct str *s, const char *format,
                                                      ...);
void str_vprintf(struct str *s, const char *format, va_list args);
/* Adds all that FROM has to TO, and leaves FROM empty. Where TO is empty their buffers
 * change places, and nothing is copied. */
void str_move(struct str *to, struct str *from);
bool str_ok(const struct str *s);
/* Moves the bytes out (malloc'ed, "" when empty); NULL after a failure. */
char *str_take(struct str *s);
void str_done(struct str *s);
#define auto_str __attribute__((cleanup(str_done)))

/* NULL-terminated once anything was pushed; owns its strings. */
struct strv {
    char **items;
    size_t count, cap;
    bool failed;
};

void strv_push(struct strv *v, const char *text); /* copies */
/* The copy, which V owns; NULL for NULL, and without memory. */
const char *strv_keep(struct strv *v, const char *text);
__attribute__((format(printf, 2, 3))) void strv_printf(struct strv *v,
                                                       const char *format, ...);
void strv_copy(struct strv *v, const struct strv *from); /* appends copies */
bool strv_has(const struct strv *v, const char *text);
bool strv_ok(const struct strv *v);
void strv_done(struct strv *v);
#define auto_strv __attribute__((cleanup(strv_done)))

/* Bytes that may hold NUL; owned. data is NUL-terminated when not NULL. */
struct blob {
    char *data;
    size_t len;
};

int blob_set(struct blob *b, const void *data, size_t len); /* 0, or -1: no memory */
void blob_done(struct blob *b);
#define auto_blob __attribute__((cleanup(blob_done)))

bool str_eq(const char *a, const char *b); /* NULL equals only NULL */
bool str_starts(const char *s, const char *prefix);

#endif
