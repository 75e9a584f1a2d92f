/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_JSON_H
#define VIAL_BASE_JSON_H

/*
 * jansson made strict, and YAML read into the same value type, so that one
 * validator serves requests, settings and the language table.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

#include "vial/error.h"

static inline void auto_json_(json_t **value)
{
    json_decref(*value);
}
#define auto_json __attribute__((cleanup(auto_json_)))

/* Spares a program that starts often jansson's own way to a random seed, which opens
 * a device. To be called before any value is made, or not at all. */
void json_seed(void);

/* A value takes up to 100 bytes and more in memory, and one of its text may be 2. */
#define JSON_VALUES_MAX 262144

/* Depth <= 64, at most JSON_VALUES_MAX values, no duplicate keys, nothing after the
 * value; bounds are judged before anything is made of the text. NAME is for messages.
 */
int json_parse(const char *text, size_t len, const char *name, json_t **out,
               struct vial_error *err);

/* One YAML document (core schema; no aliases, no tags, no duplicate keys, depth
 * <= 32, at most 1 MiB and 65536 values). An empty document is an empty object. JSON is
 * accepted too, being YAML. */
int yaml_parse(const char *text, size_t len, const char *name, json_t **out,
               struct vial_error *err);
int yaml_read(const char *path, json_t **out, struct vial_error *err);
/* The line of a text that yaml_parse took at which the value under PATH stands: keys,
 * and numbers of lists' entries ("run/3"); of the last that is there. */
unsigned yaml_line(const char *text, size_t len, const char *path);

/*
 * JSON written out in pieces. Bytes that may be many (what a program printed, files)
 * are not copied into a tree: the tree has a stand-in for them, and they are escaped or
 * coded while they are written. So an answer costs a few KiB beside the bytes
 * themselves.
 */

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
