/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/yaml_keys.h"

#include <string.h>

#include "base/fail.h"
#include "base/str.h"
#include "base/text.h"
#include "model/value.h"

static const struct yaml_key *find(const struct yaml_key *shapes, const char *key)
{
    for (; shapes->key; shapes++)
        if (strcmp(shapes->key, key) == 0)
            return shapes;
    return NULL;
}

static int unknown(const struct yaml_key *shapes, const char *key, const char *where,
                   struct vial_error *err)
{
    const char *known[64] = { 0 };
    const char *near = NULL;
    struct shown shown;

    for (size_t i = 0; shapes[i].key && i + 1 < sizeof(known) / sizeof(known[0]); i++)
        known[i] = shapes[i].key;
    near = text_suggest(key, known);
    shown = value_show(key, strlen(key));
    (void)fail(err, VIAL_E_FIELD, "unknown key '%s' in '%s'", shown.text, where);
    return near ? fail_remedy(err, "did you mean '%s'?", near) : -1;
}

static int refuse(const char *where, const char *what, struct vial_error *err)
{
    return fail(err, VIAL_E_VALUE, "%s is not %s", where, what);
}

static int check_each(json_t *value, const struct yaml_key *inside, const char *where,
                      struct vial_error *err)
{
    for (void *at = json_object_iter(value); at;
         at = json_object_iter_next(value, at)) {
        auto_str struct str name = { 0 };

        str_printf(&name, "%s.%s", where, json_object_iter_key(at));
        if (!str_ok(&name))
            return fail_memory(err);
        if (!inside && !value_string(json_object_iter_value(at)))
            return refuse(name.data, "a text", err);
        if (inside &&
            yaml_keys_check(json_object_iter_value(at), inside, name.data, err) < 0)
            return -1;
    }
    return 0;
}

static int check_items(json_t *value, const struct yaml_key *inside, const char *where,
                       struct vial_error *err)
{
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(value, i, item)
    {
        auto_str struct str name = { 0 };

        str_printf(&name, "%s[%zu]", where, i);
        if (!str_ok(&name))
            return fail_memory(err);
        if (!inside && !value_string(item))
            return refuse(name.data, "a text", err);
        if (inside && yaml_keys_check(item, inside, name.data, err) < 0)
            return -1;
    }
    return 0;
}

static int check_value(json_t *value, const struct yaml_key *shape, const char *where,
                       struct vial_error *err)
{
    switch (shape->type) {
    case YAML_TEXT:
        return value_string(value) ? 0 : refuse(where, "a text", err);
    case YAML_FLAG:
        return json_is_boolean(value) ? 0 : refuse(where, "true or false", err);
    case YAML_COUNT:
        return json_is_integer(value) && json_integer_value(value) >= 0
                   ? 0
                   : refuse(where, "a count", err);
    case YAML_TEXTS:
    case YAML_LIST:
        return json_is_array(value) ? check_items(value, shape->inside, where, err)
                                    : refuse(where, "a list", err);
    case YAML_WORDS:
    case YAML_MAP:
        return json_is_object(value) ? check_each(value, shape->inside, where, err)
                                     : refuse(where, "a mapping of keys", err);
    case YAML_OBJECT:
        return yaml_keys_check(value, shape->inside, where, err);
    case YAML_ANY:
        break;
    }
    return 0;
}

static int check_needed(json_t *object, const struct yaml_key *shapes,
                        const char *where, struct vial_error *err)
{
    for (; shapes->key; shapes++)
        if (shapes->needed && !json_object_get(object, shapes->key))
            return fail(err, VIAL_E_VALUE, "%s lacks the key '%s'", where, shapes->key);
    return 0;
}

int yaml_keys_check(json_t *object, const struct yaml_key *shapes, const char *where,
                    struct vial_error *err)
{
    if (!json_is_object(object))
        return refuse(where, "a mapping of keys", err);
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        const struct yaml_key *shape = find(shapes, key);
        auto_str struct str name = { 0 };

        if (!shape)
            return unknown(shapes, key, where, err);
        str_printf(&name, "%s.%s", where, key);
        if (!str_ok(&name))
            return fail_memory(err);
        if (check_value(json_object_iter_value(at), shape, name.data, err) < 0)
            return -1;
    }
    return check_needed(object, shapes, where, err);
}
