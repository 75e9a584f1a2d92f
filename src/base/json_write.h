/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_JSON_WRITE_H
#define VIAL_BASE_JSON_WRITE_H

/*
 * JSON written out in pieces. Bytes that may be many (what a program printed, files)
 * are not copied into a tree: the tree has a stand-in for them, and they are escaped or
 * coded while they are written. So an answer costs a few KiB beside the bytes
 * themselves.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Where the pieces go; -1: no more are wanted. */
struct json_sink {
    int (*put)(void *context, const void *data, size_t len);
    void *context;
};

struct json_large {
    const json_t *stand_in; /* borrowed from the tree */
    const char *data;       /* borrowed */
    size_t len;
    bool base64; /* else as text, repaired to UTF-8 */
};

/* Zero-initialised is empty. */
struct json_larges {
    struct json_large *items;
    size_t count;
};

/* A stand-in for LEN bytes at DATA, which have to stay until all is written; NULL: no
 * memory. */
json_t *json_large(struct json_larges *l, const char *data, size_t len, bool base64);
void json_larges_done(struct json_larges *l);
#define auto_larges __attribute__((cleanup(json_larges_done)))

enum json_style { JSON_STYLE_SPACED, JSON_STYLE_COMPACT };

/* L may be NULL. -1: the sink wants no more, or there is no memory. */
int json_write(const json_t *value, const struct json_larges *l, enum json_style style,
               const struct json_sink *to);

#endif
