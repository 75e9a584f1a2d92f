/* SPDX-License-Identifier: Apache-2.0 */
#include "model/fields.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static_assert(FIELD_ID__COUNT <= 64, "struct vial_request counts them in 64 bits");

static const char driver_choices[] = "auto"
#define DRIVER(name, ...)      "|" #name
#define TEST_DRIVER(name, ...) "||" #name
#include "model/drivers.def"
    ;

const struct field fields[] = {
#define FIELD(name, type, scope, metavar, choices, min, max, def, help)                \
    { #name, type, scope, metavar, choices, min, max, def, help },
#include "model/fields.def"
#undef FIELD
};

const char *const field_names[] = {
#define FIELD(name, ...) #name,
#include "model/fields.def"
#undef FIELD
    NULL
};

const struct field *field_find(const char *name)
{
    for (size_t i = 0; i < FIELD_ID__COUNT; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

enum field_id field_id_of(const struct field *f)
{
    return (enum field_id)(f - fields);
}
