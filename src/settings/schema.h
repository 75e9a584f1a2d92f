/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_SCHEMA_H
#define VIAL_SETTINGS_SCHEMA_H

/* JSON schemas (draft 2020-12), the first made from fields.def. NULL without
 * memory. */

#include <jansson.h>

#include "vial/error.h"

json_t *schema_request(void);
json_t *schema_result(void);
json_t *schema_settings(void);

/* Of one field's value. */
struct field;
json_t *schema_field(const struct field *f);

/* By its name: "request", "result" or "settings". */
int schema_find(const char *kind, json_t **out, struct vial_error *err);

#endif
