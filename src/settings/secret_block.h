/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_SECRET_BLOCK_H
#define VIAL_SETTINGS_SECRET_BLOCK_H

/* The block `secrets`: name -> from, hosts, only, headers, max_request, max_response,
 * ca, shape (model/secret.h). Values are read when a vessel is opened, not here. */

#include <jansson.h>

#include "base/str.h"

#include "vial/error.h"

/* Appends OBJECT's secrets to LINES. A name that is there already is refused: whoever
 * comes later must not lead it elsewhere. */
int secret_block_read(struct strv *lines, json_t *object, const char *where,
                      struct vial_error *err);
json_t *secret_block_schema(void);
/* What `vial config show` says: names, and where each may go. */
json_t *secret_block_json(const struct strv *lines);

#endif
