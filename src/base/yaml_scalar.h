/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_BASE_YAML_SCALAR_H
#define VIAL_BASE_YAML_SCALAR_H

/* Gives the meaning of a plain (unquoted) YAML scalar: YAML 1.2 core schema, without
 * the infinities and NaN, which JSON lacks and which stay text. */

#include <jansson.h>
#include <stddef.h>

/* New reference; NULL when it is a number that no JSON value can hold, is not
 * UTF-8, or memory is lacking. TEXT is NUL-terminated. */
json_t *yaml_scalar_plain(const char *text, size_t len);

#endif
