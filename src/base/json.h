/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_JSON_H
#define VIAL_BASE_JSON_H

/*
 * jansson made strict, and YAML read into the same value type, so that one
 * validator serves requests, settings and the language table.
 */

#include <jansson.h>

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

#endif
