/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIAL_SERVE_BODIES_H
#define VIAL_SERVE_BODIES_H

/*
 * What requests bring and answers have, as tables (bodies.def, answers.def). By them a
 * body is read and judged, and OpenAPI describes both.
 */

#include "model/members.h"
#include "model/value.h"
#include "serve/http_call.h"

enum shape_rule {
    NEEDED, /* always there */
    CAN,    /* may be missing */
    NIL,    /* always there, but may be null */
};

struct shape_row {
    const char *name; /* NULL ends the table */
    enum member_type type;
    enum shape_rule rule;
    /* Of LIST and MAP, what each entry is, and of OBJECT: a shape, or a JSON type. Of
     * TEXT: its values, "a|b". NULL: whatever it may be. Behind it "?": that, or
     * null. */
    const char *inside;
    size_t offset; /* of a body's: into its struct */
    const char *help;
};

struct shape {
    const char *name;
    const char *base; /* a shape whose members it has, too; or NULL */
    const struct shape_row *rows;
};

/* Both up to one without a name. */
extern const struct shape body_shapes[];
extern const struct shape answer_shapes[];

/* shape_schema.c: all of them by their names, with those of requests and results; one
 * by its name; and a request's, with the members of a body beside its own. */
json_t *shape_schemas(void);
json_t *shape_ref(const char *name, size_t len);
json_t *shape_request_with(const char *name);

enum body_id {
#define BODY(name) BODY_##name,
#define MEMBER(...)
#define END(name)
#include "serve/bodies.def"
#undef BODY
#undef MEMBER
#undef END
};

#define BODY_TEXT   const char *
#define BODY_BYTES  struct blob
#define BODY_BOOL   bool
#define BODY_COUNT  int64_t
#define BODY_MS     int64_t
#define BODY_SIZE   int64_t
#define BODY_TEXTS  json_t *
#define BODY_WORDS  json_t *
#define BODY_LIST   json_t *
#define BODY_OBJECT json_t *

/* struct exec_body and so on: what is not given stays as it is. */
#define BODY(name)                                 struct name##_body {
#define MEMBER(of, name, type, rule, inside, help) BODY_##type name;
#define END(name)                                                                      \
    }                                                                                  \
    ;
#include "serve/bodies.def"
#undef BODY
#undef MEMBER
#undef END

/* Reads the call's body into OUT, which borrows from it. */
int body_read(struct call *c, enum body_id id, void *out, struct vial_error *err);

/* The same of an object that has members of another kind as well: ours are taken out
 * of it, and *REST is what is left, borrowed. */
int body_read_beside(struct call *c, enum body_id id, void *out, json_t **rest,
                     struct vial_error *err);

/* A list of texts as a NULL-terminated array of borrowed ones, to be freed. */
const char **body_texts(json_t *list, struct vial_error *err);

#endif
