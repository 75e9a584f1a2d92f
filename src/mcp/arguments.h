/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MCP_ARGUMENTS_H
#define VIAL_MCP_ARGUMENTS_H

/*
 * Judges a value by a JSON schema, as far as our own schemas go: type, enum, const,
 * properties, required, additionalProperties, items, minimum, maximum, minLength,
 * maxLength, minItems, maxItems, anyOf, oneOf, allOf, if/then/else and references
 * within the schema. Other keywords are not judged. Texts never hold NUL.
 */

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

/* True if it fits; else WHY says so in words for a model. */
bool arguments_fit(const json_t *schema, const json_t *value, struct str *why);

#endif
