/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/json_members.h"

#include <string.h>

#include "base/fail.h"
#include "base/str.h"
#include "base/text.h"
#include "model/value.h"

static int refuse(const char *name, const char *what, struct vial_error *err)
{
    return fail(err, VIAL_E_VALUE, "'%s' is not %s", name, what);
}

static int read_text(const struct member *m, json_t *value, struct vial_error *err)
{
    const char *text = value_string(value);

    if (!text)
        return refuse(m->name, "text", err);
    *(const char **)m->out = text;
    return 0;
}

static int read_bytes(const struct member *m, json_t *value, struct vial_error *err)
{
    struct blob *out = m->out;

    if (!json_is_string(value))
        return refuse(m->name, "text", err);
    /* Borrowed: nobody writes to it. */
    out->data = (char *)(uintptr_t)json_string_value(value);
    out->len = json_string_length(value);
    return 0;
}

static int read_number(const struct member *m, json_t *value, struct vial_error *err)
{
    const struct field f = {
        .name = m->name,
        .type = m->type == MEMBER_MS ? FIELD_MS : FIELD_COUNT_,
        .min = 0,
        .max = INT64_C(1) << 53,
    };

    return value_decode(&f, value, m->out, err);
}

static int read_one(const struct member *m, json_t *value, struct vial_error *err)
{
    switch (m->type) {
    case MEMBER_TEXT:
        return read_text(m, value, err);
    case MEMBER_BYTES:
        return read_bytes(m, value, err);
    case MEMBER_COUNT:
    case MEMBER_MS:
        return read_number(m, value, err);
    case MEMBER_BOOL:
        if (!json_is_boolean(value))
            return refuse(m->name, "true or false", err);
        *(bool *)m->out = json_is_true(value);
        return 0;
    case MEMBER_LIST:
        if (!json_is_array(value))
            return refuse(m->name, "a list", err);
        *(json_t **)m->out = value;
        return 0;
    case MEMBER_MAP:
        if (!json_is_object(value))
            return refuse(m->name, "an object", err);
        *(json_t **)m->out = value;
        return 0;
    }
    return 0;
}

static int refuse_unknown(const char *key, const struct member *table,
                          struct vial_error *err)
{
    auto_strv struct strv names = { 0 };
    const char *near = NULL;
    struct shown shown;

    for (; table->name; table++)
        strv_push(&names, table->name);
    if (names.count && strv_ok(&names))
        near = text_suggest(key, (const char *const *)names.items);
    shown = value_show(key, strlen(key));
    (void)fail(err, VIAL_E_FIELD, "unknown member '%s'", shown.text);
    return near ? fail_remedy(err, "did you mean '%s'?", near) : -1;
}

int member_read(json_t *object, const struct member *table, struct vial_error *err)
{
    if (!json_is_object(object))
        return fail(err, VIAL_E_VALUE, "this is not a JSON object");
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        const struct member *m = table;

        while (m->name && strcmp(m->name, key) != 0)
            m++;
        if (!m->name)
            return refuse_unknown(key, table, err);
        if (read_one(m, json_object_iter_value(at), err) < 0)
            return -1;
    }
    return 0;
}
