/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_VALUE_H
#define VIAL_MODEL_VALUE_H

/*
 * One value of a field's type: from JSON, from text, and back. A field here is
 * any row with a name, a type and a range; requests, policies and the language
 * table all describe theirs that way. Every refusal is VIAL-VALUE and names the
 * field, the value and what is allowed.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "model/fields.h"

#include "vial/error.h"

/* Numbers of every kind. JSON: seconds, bytes, cores or a count; or text with a
 * unit (a count is never text in JSON). */
int value_decode(const struct field *f, json_t *json, int64_t *out,
                 struct vial_error *err);
int value_parse(const struct field *f, const char *text, size_t len, int64_t *out,
                struct vial_error *err);
void value_write(struct str *out, enum field_type type, int64_t value);
json_t *value_json(enum field_type type, int64_t value);

/* Index of TEXT in "a|b|c"; -1: it is none of them. */
int value_choice(const char *choices, const char *text, size_t len);
/* How many bytes of CHOICES users are told of. */
size_t value_choices_told(const char *choices);
/* Entry INDEX of "a|b|c", appended to OUT. */
void value_choice_name(struct str *out, const char *choices, int index);

/* Text that may be shown and logged as it is: UTF-8, no control characters. */
bool value_is_plain(const char *text, size_t len);

/* A string without NUL bytes, or NULL when JSON is not one. Borrowed. */
const char *value_string(const json_t *json);

/* Any bytes as a JSON string, repaired to UTF-8. NULL without memory. */
json_t *value_text_json(const char *data, size_t len);

/* Hostile bytes made fit for a message: neutralised and short. */
struct shown {
    char text[176];
};
struct shown value_show(const char *text, size_t len);
struct shown value_show_json(const json_t *json);

/* "FIELD 'VALUE' is not WHAT". */
int value_refuse(const struct field *f, const char *text, size_t len, const char *what,
                 struct vial_error *err);
int value_refuse_json(const struct field *f, const json_t *json, const char *what,
                      struct vial_error *err);

/* "unknown WHAT 'NAME'", and the rest as printf has it (" in '%s'"); the remedy is the
 * nearest of KNOWN (NULL-terminated), or all of them if they are few. -1. */
__attribute__((format(printf, 5, 6))) int value_unknown(struct vial_error *err,
                                                        const char *what,
                                                        const char *name,
                                                        const char *const *known,
                                                        const char *rest, ...);

#endif
