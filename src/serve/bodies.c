/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/bodies.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/fail.h"

#define ROWS_MAX 16

#define BODY(name) static const struct shape_row name##_rows[] = {
#define MEMBER(of, name, type, rule, inside, help)                                     \
    { #name, MEMBER_##type, rule, inside, offsetof(struct of##_body, name), help },
#define END(name)                                                                      \
    {                                                                                  \
        0                                                                              \
    }                                                                                  \
    }                                                                                  \
    ;                                                                                  \
    _Static_assert(sizeof(name##_rows) / sizeof(name##_rows[0]) <= ROWS_MAX, #name);
#include "serve/bodies.def"
#undef BODY
#undef MEMBER
#undef END

const struct shape body_shapes[] = {
#define BODY(name) { #name "_body", NULL, name##_rows },
#define MEMBER(...)
#define END(name)
#include "serve/bodies.def"
#undef BODY
#undef MEMBER
#undef END
    { 0 },
};

static int read_object(json_t *object, const struct shape *shape, void *out,
                       struct vial_error *err)
{
    struct member table[ROWS_MAX] = { 0 };

    for (size_t i = 0; shape->rows[i].name; i++)
        table[i] = (struct member){ .name = shape->rows[i].name,
                                    .type = shape->rows[i].type,
                                    .out = (char *)out + shape->rows[i].offset,
                                    .needed = shape->rows[i].rule == NEEDED };
    return members_read(object, table, NULL, err);
}

int body_read(struct call *c, enum body_id id, void *out, struct vial_error *err)
{
    if (call_body(c, err) < 0)
        return -1;
    return read_object(c->body, &body_shapes[id], out, err);
}

int body_read_beside(struct call *c, enum body_id id, void *out, json_t **rest,
                     struct vial_error *err)
{
    auto_json json_t *own = json_object();

    if (call_body(c, err) < 0)
        return -1;
    for (const struct shape_row *row = body_shapes[id].rows; row->name; row++) {
        json_t *value = json_object_get(c->body, row->name);

        if (value && json_object_set(own, row->name, value) < 0)
            return fail_memory(err);
        (void)json_object_del(c->body, row->name);
    }
    *rest = c->body;
    return read_object(own, &body_shapes[id], out, err);
}

const char **body_texts(json_t *list, struct vial_error *err)
{
    size_t count = json_array_size(list);
    const char **out = calloc(count + 1, sizeof(*out));

    for (size_t i = 0; out && i < count; i++)
        out[i] = json_string_value(json_array_get(list, i));
    if (!out)
        (void)fail_memory(err);
    return out;
}

#define ANSWER(name, base) static const struct shape_row name##_answer[] = {
#define MEMBER(of, name, type, rule, inside, help)                                     \
    { #name, MEMBER_##type, rule, inside, 0, help },
#define END(name)                                                                      \
    {                                                                                  \
        0                                                                              \
    }                                                                                  \
    }                                                                                  \
    ;
#include "serve/answers.def"
#undef ANSWER
#undef MEMBER
#undef END

const struct shape answer_shapes[] = {
#define ANSWER(name, base) { #name, base, name##_answer },
#define MEMBER(...)
#define END(name)
#include "serve/answers.def"
#undef ANSWER
#undef MEMBER
#undef END
    { 0 },
};
