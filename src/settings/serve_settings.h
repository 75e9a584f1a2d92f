/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_SERVE_SETTINGS_H
#define VIAL_SETTINGS_SERVE_SETTINGS_H

/*
 * The settings of the daemon (serve_settings.def): the key `serve` of a settings file.
 * An inner layer's value replaces an outer one's. A project's file has none.
 */

#include <jansson.h>

#include "model/request.h"

#include "vial/error.h"

struct serve_settings {
#define SERVE(name, type, ...) field_c_##type name;
#include "settings/serve_settings.def"
#undef SERVE
};

/* The built-in values. */
int serve_settings_init(struct serve_settings *s, struct vial_error *err);
int serve_settings_decode(struct serve_settings *s, json_t *object, const char *where,
                          struct vial_error *err);
json_t *serve_settings_json(const struct serve_settings *s); /* NULL: no memory */
void serve_settings_done(struct serve_settings *s);

/* Row INDEX of the table, or NULL behind its end. */
const struct field *serve_settings_row(size_t index);

#endif
