/* SPDX-License-Identifier: Apache-2.0 */
#include "model/fields.h"

#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/fail.h"
#include "model/field_type.h"
#include "model/value.h"

static_assert(FIELD_ID__COUNT <= 8 * sizeof(field_set),
              "a field_set has a bit for each");

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

int field_check_count(const struct field *f, size_t count, struct vial_error *err)
{
    if (count <= (size_t)f->max)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "%s has more than %lld entries", f->name,
               (long long)f->max);
    return fail_remedy(err,
                       "give fewer, or put them into a file that the program reads");
}

/* Numbers */

static int number_decode(const struct field *f, void *member, json_t *json,
                         struct vial_error *err)
{
    return value_decode(f, json, member, err);
}

static int number_parse(const struct field *f, void *member, const char *text,
                        size_t len, struct vial_error *err)
{
    return value_parse(f, text, len, member, err);
}

static int number_copy(void *member, const void *from)
{
    *(int64_t *)member = *(const int64_t *)from;
    return 0;
}

static json_t *number_json(const struct field *f, const void *member)
{
    return value_json(f->type, *(const int64_t *)member);
}

static void number_done(void *member)
{
    *(int64_t *)member = 0;
}

/* Choices */

static int refuse_choice(const struct field *f, const struct shown *shown,
                         struct vial_error *err)
{
    const char *end = f->choices + value_choices_told(f->choices);
    auto_str struct str names = { 0 };

    for (const char *c = f->choices; c < end; c++) {
        if (*c == '|')
            str_puts(&names, ", ");
        else
            str_putc(&names, *c);
    }
    if (!str_ok(&names))
        return fail_memory(err);
    (void)fail(err, VIAL_E_VALUE, "%s '%s' is not one of: %s", f->name, shown->text,
               names.data);
    return fail_remedy(err, "choose one of: %s", names.data);
}

static int choice_parse(const struct field *f, void *member, const char *text,
                        size_t len, struct vial_error *err)
{
    int index = value_choice(f->choices, text, len);
    struct shown shown;

    if (index >= 0) {
        *(int *)member = index;
        return 0;
    }
    shown = value_show(text, len);
    return refuse_choice(f, &shown, err);
}

static int choice_decode(const struct field *f, void *member, json_t *json,
                         struct vial_error *err)
{
    struct shown shown;

    if (json_is_string(json))
        return choice_parse(f, member, json_string_value(json),
                            json_string_length(json), err);
    shown = value_show_json(json);
    return refuse_choice(f, &shown, err);
}

static int choice_copy(void *member, const void *from)
{
    *(int *)member = *(const int *)from;
    return 0;
}

static json_t *choice_json(const struct field *f, const void *member)
{
    auto_str struct str name = { 0 };

    value_choice_name(&name, f->choices, *(const int *)member);
    return str_ok(&name) ? json_string(name.data) : NULL;
}

static void choice_done(void *member)
{
    *(int *)member = 0;
}

/* Switches */

static int bool_decode(const struct field *f, void *member, json_t *json,
                       struct vial_error *err)
{
    if (json_is_boolean(json)) {
        *(bool *)member = json_is_true(json);
        return 0;
    }
    return value_refuse_json(f, json, "true or false", err);
}

static int bool_parse(const struct field *f, void *member, const char *text, size_t len,
                      struct vial_error *err)
{
    int index = value_choice("false|true", text, len);

    if (index >= 0) {
        *(bool *)member = index == 1;
        return 0;
    }
    return value_refuse(f, text, len, "true or false", err);
}

static int bool_copy(void *member, const void *from)
{
    *(bool *)member = *(const bool *)from;
    return 0;
}

static json_t *bool_json(const struct field *f, const void *member)
{
    (void)f;
    return json_boolean(*(const bool *)member);
}

static void bool_done(void *member)
{
    *(bool *)member = false;
}

/* Texts: any bytes */

static int text_parse(const struct field *f, void *member, const char *text, size_t len,
                      struct vial_error *err)
{
    struct blob copy = { 0 };

    if (len > (size_t)f->max)
        return fail(err, VIAL_E_VALUE, "%s has %zu bytes, more than %lld", f->name, len,
                    (long long)f->max);
    if (blob_set(&copy, text, len) < 0)
        return fail_memory(err);
    blob_done(member);
    *(struct blob *)member = copy;
    return 0;
}

static int text_decode(const struct field *f, void *member, json_t *json,
                       struct vial_error *err)
{
    if (json_is_string(json))
        return text_parse(f, member, json_string_value(json), json_string_length(json),
                          err);
    return value_refuse_json(f, json, "a string", err);
}

static int text_copy(void *member, const void *from)
{
    const struct blob *b = from;

    return blob_set(member, b->data ? b->data : "", b->len);
}

static json_t *text_json(const struct field *f, const void *member)
{
    const struct blob *b = member;

    (void)f;
    return value_text_json(b->data ? b->data : "", b->len);
}

static void text_done(void *member)
{
    blob_done(member);
    *(struct blob *)member = (struct blob){ 0 };
}

/* Names: short text that may be shown */

static int name_parse(const struct field *f, void *member, const char *text, size_t len,
                      struct vial_error *err)
{
    struct shown shown;
    char *copy;

    if (len == 0 || len > (size_t)f->max || !value_is_plain(text, len)) {
        shown = value_show(text, len);
        (void)fail(err, VIAL_E_VALUE,
                   "%s '%s' is not plain text of 1 to %lld bytes without control "
                   "characters",
                   f->name, shown.text, (long long)f->max);
        return -1;
    }
    copy = strndup(text, len);
    if (!copy)
        return fail_memory(err);
    free(*(char **)member);
    *(char **)member = copy;
    return 0;
}

static int name_decode(const struct field *f, void *member, json_t *json,
                       struct vial_error *err)
{
    if (json_is_string(json))
        return name_parse(f, member, json_string_value(json), json_string_length(json),
                          err);
    return value_refuse_json(f, json, "a string", err);
}

static int name_copy(void *member, const void *from)
{
    const char *name = *(char *const *)from;
    char *copy = name ? strdup(name) : NULL;

    *(char **)member = copy;
    return name && !copy ? -1 : 0;
}

static json_t *name_json(const struct field *f, const void *member)
{
    const char *name = *(char *const *)member;

    (void)f;
    return name ? json_string(name) : json_null();
}

static void name_done(void *member)
{
    free(*(char **)member);
    *(char **)member = NULL;
}

/* Lists of strings without NUL */

static int list_parse(const struct field *f, void *member, const char *text, size_t len,
                      struct vial_error *err)
{
    struct strv *list = member;
    struct shown shown;

    if (strlen(text) != len)
        return value_refuse(f, text, len, "text without NUL bytes", err);
    if (f->choices && value_choice(f->choices, text, len) < 0) {
        shown = value_show(text, len);
        return refuse_choice(f, &shown, err);
    }
    strv_push(list, text);
    if (!strv_ok(list))
        return fail_memory(err);
    return field_check_count(f, list->count, err);
}

static int list_decode(const struct field *f, void *member, json_t *json,
                       struct vial_error *err)
{
    if (!json_is_array(json))
        return value_refuse_json(f, json, "a list of strings", err);
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *item = json_array_get(json, i);

        if (!json_is_string(item))
            return value_refuse_json(f, item, "a string", err);
        if (list_parse(f, member, json_string_value(item), json_string_length(item),
                       err) < 0)
            return -1;
    }
    return 0;
}

static int list_copy(void *member, const void *from)
{
    strv_copy(member, from);
    return strv_ok(member) ? 0 : -1;
}

static json_t *list_json(const struct field *f, const void *member)
{
    const struct strv *list = member;
    json_t *array = json_array();

    (void)f;
    for (size_t i = 0; i < list->count; i++)
        (void)json_array_append_new(
            array, value_text_json(list->items[i], strlen(list->items[i])));
    return array;
}

static void list_done(void *member)
{
    strv_done(member);
    *(struct strv *)member = (struct strv){ 0 };
}

const struct field_ops *field_ops_of(enum field_type type)
{
    static const struct field_ops number = { number_decode, number_parse, number_copy,
                                             number_json, number_done };
    static const struct field_ops choice = { choice_decode, choice_parse, choice_copy,
                                             choice_json, choice_done };
    static const struct field_ops boolean = { bool_decode, bool_parse, bool_copy,
                                              bool_json, bool_done };
    static const struct field_ops text = { text_decode, text_parse, text_copy,
                                           text_json, text_done };
    static const struct field_ops name = { name_decode, name_parse, name_copy,
                                           name_json, name_done };
    static const struct field_ops list = { list_decode, list_parse, list_copy,
                                           list_json, list_done };
    static const struct field_ops *const kinds[] = {
        [FIELD_TEXT] = &text,
        [FIELD_NAME] = &name,
        [FIELD_CHOICE] = &choice,
        [FIELD_BOOL] = &boolean,
        [FIELD_COUNT_] = &number,
        [FIELD_MS] = &number,
        [FIELD_BYTES] = &number,
        [FIELD_MILLI] = &number,
        [FIELD_LIST] = &list,
        [FIELD_MAP] = &field_env_ops,
        [FIELD_FILES] = &field_files_ops,
        [FIELD_MOUNTS] = &field_mounts_ops,
    };

    return kinds[type];
}
