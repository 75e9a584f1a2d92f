/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/serve_settings.h"

#include <stddef.h>
#include <string.h>

#include "base/fail.h"
#include "base/text.h"
#include "model/field_type.h"
#include "model/value.h"

static const struct {
    struct field f;
    size_t offset;
} rows[] = {
#define SERVE(name, type, choices, min, max, def, help)                                \
    { { #name, type, FIELD_IN_SETTINGS, NULL, choices, min, max, def, help },          \
      offsetof(struct serve_settings, name) },
#include "settings/serve_settings.def"
#undef SERVE
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const names[] = {
#define SERVE(name, ...) #name,
#include "settings/serve_settings.def"
#undef SERVE
    NULL
};

static void *member(struct serve_settings *s, size_t i)
{
    return (char *)s + rows[i].offset;
}

const struct field *serve_settings_row(size_t index)
{
    return index < ROWS ? &rows[index].f : NULL;
}

int serve_settings_init(struct serve_settings *s, struct vial_error *err)
{
    *s = (struct serve_settings){ 0 };
    for (size_t i = 0; i < ROWS; i++) {
        const struct field *f = &rows[i].f;

        if (f->def && field_ops_of(f->type)->parse(f, member(s, i), f->def,
                                                   strlen(f->def), err) < 0)
            return -1;
    }
    return 0;
}

static int unknown(const char *key, const char *where, struct vial_error *err)
{
    const char *near = text_suggest(key, names);
    struct shown shown;

    shown = value_show(key, strlen(key));
    (void)fail(err, VIAL_E_FIELD, "unknown key '%s' in '%s': serve", shown.text, where);
    return near ? fail_remedy(err, "did you mean '%s'?", near) : -1;
}

static int decode(struct serve_settings *s, const char *key, json_t *value,
                  const char *where, struct vial_error *err)
{
    size_t i = 0;
    const struct field_ops *kind;

    while (names[i] && strcmp(names[i], key) != 0)
        i++;
    if (!names[i])
        return unknown(key, where, err);
    kind = field_ops_of(rows[i].f.type);
    kind->done(member(s, i));
    if (kind->decode(&rows[i].f, member(s, i), value, err) < 0)
        return fail_in(err, "%s: serve", where);
    return 0;
}

int serve_settings_decode(struct serve_settings *s, json_t *object, const char *where,
                          struct vial_error *err)
{
    if (!json_is_object(object))
        return fail(err, VIAL_E_VALUE, "%s: serve is not an object", where);
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at))
        if (decode(s, json_object_iter_key(at), json_object_iter_value(at), where,
                   err) < 0)
            return -1;
    return 0;
}

json_t *serve_settings_json(const struct serve_settings *s)
{
    json_t *object = json_object();

    for (size_t i = 0; i < ROWS; i++) {
        const void *at = (const char *)s + rows[i].offset;
        json_t *value = field_ops_of(rows[i].f.type)->json(&rows[i].f, at);

        (void)json_object_set_new(object, rows[i].f.name, value ? value : json_null());
    }
    return object;
}

void serve_settings_done(struct serve_settings *s)
{
    for (size_t i = 0; i < ROWS; i++)
        field_ops_of(rows[i].f.type)->done(member(s, i));
}
