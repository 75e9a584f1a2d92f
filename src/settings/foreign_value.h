/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SETTINGS_FOREIGN_VALUE_H
#define VIAL_SETTINGS_FOREIGN_VALUE_H

/*
 * One value on its way from the name and the words that a preset's system has for it
 * to ours.
 */

#include <jansson.h>

#include "base/str.h"
#include "settings/sources.h"

struct foreign_value {
    struct settings *s;
    struct source *out;
    char *const *environ_;
    const char *name;  /* as its system calls it */
    const char *where; /* the file it stands in, or NULL: the environment */
    json_t *map;       /* how the preset translates it */
    bool project;      /* code may have written it */
};

/* A member that is a string, or NULL. Borrowed. */
const char *foreign_value_member(json_t *object, const char *key);
bool foreign_value_is_number(const char *text);

/* "NAME 'VALUE' is not WHAT", with the file's name before it. */
int foreign_value_refuse(const struct foreign_value *p, const char *value,
                         const char *what, struct vial_error *err);

/* Gives a value that is neither a list nor a mapping, as text. */
int foreign_value_scalar(const struct foreign_value *p, json_t *value, struct str *out,
                         struct vial_error *err);

/* The value in our words. *OUT is "" when there is nothing to set. */
int foreign_value_translate(const struct foreign_value *p, const char *value,
                            struct str *out, struct vial_error *err);

/* Sets a field of ours to what is in our words already; NULL is "". */
int foreign_value_set_field(const struct foreign_value *p, const struct field *f,
                            const char *value, struct vial_error *err);

#endif
