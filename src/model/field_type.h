/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_MODEL_FIELD_TYPE_H
#define VIAL_MODEL_FIELD_TYPE_H

/*
 * The operations on a member of each field type (fields.c). MEMBER points at a
 * field_c_<type> (model/request.h), zero-initialised when empty.
 */

#include <jansson.h>
#include <stddef.h>

#include "model/fields.h"
#include "model/request.h"

#include "vial/error.h"

struct field_ops {
    /* Kinds that gather add to what is there; others replace it. */
    int (*decode)(const struct field *f, void *member, json_t *json,
                  struct vial_error *err);
    /* LEN bytes at TEXT, then a NUL. */
    int (*parse)(const struct field *f, void *member, const char *text, size_t len,
                 struct vial_error *err);
    int (*copy)(void *member, const void *from); /* into an empty one; -1: no memory */
    json_t *(*json)(const struct field *f, const void *member); /* NULL: no memory */
    void (*done)(void *member);                                 /* leaves it empty */
};

const struct field_ops *field_ops_of(enum field_type type);

extern const struct field_ops field_env_ops;    /* field_env.c */
extern const struct field_ops field_files_ops;  /* field_files.c */
extern const struct field_ops field_mounts_ops; /* field_mounts.c */

/* Refuses a list that has grown beyond F's entries. */
int field_check_count(const struct field *f, size_t count, struct vial_error *err);

/* Sets the variable NAME in ENV ("K=V" strings), in place if it is there.
 * -1: no memory. */
int field_put_env(struct strv *env, const char *name, size_t name_len,
                  const char *value);

#endif
