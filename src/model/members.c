/* SPDX-License-Identifier: Apache-2.0 */
#include "model/members.h"

#include <stdint.h>
#include <string.h>

#include "base/fail.h"
#include "base/str.h"
#include "base/text.h"
#include "model/value.h"

#define NAMES_MAX 64
#define COUNT_MAX (INT64_C(1) << 53) /* what JSON's numbers hold exactly */

/* The source of the JSON decides how a fault is told. */
enum source { FROM_FILE, FROM_BODY, FROM_TOOL };

struct reading {
    enum source from;
    struct str path; /* "preset mine.tools.run", "files[0].path" */
    struct vial_error *err;
};

static int read_value(struct reading *r, const struct member *m, json_t *value);

/* A fault of a tool's arguments. */
__attribute__((format(printf, 2, 3))) static int bad(struct reading *r,
                                                     const char *format, ...)
{
    auto_str struct str text = { 0 };
    va_list args;

    if (r->path.len > 0)
        str_printf(&text, "'%s' ", r->path.data);
    va_start(args, format);
    str_vprintf(&text, format, args);
    va_end(args);
    return str_ok(&text) ? fail(r->err, VIAL_E_VALUE, "%s", text.data)
                         : fail_memory(r->err);
}

static int refuse_type(struct reading *r, enum member_type type)
{
    static const char *const names[][3] = {
        [MEMBER_TEXT] = { "a text", "text", "string" },
        [MEMBER_BYTES] = { "a text", "text", "string" },
        [MEMBER_BOOL] = { "true or false", "true or false", "boolean" },
        [MEMBER_COUNT] = { "a count", "a count", "integer" },
        [MEMBER_INTEGER] = { "an integer", "an integer", "integer" },
        [MEMBER_NUMBER] = { "a number", "a number", "number" },
        [MEMBER_TEXTS] = { "a list", "a list", "array" },
        [MEMBER_LIST] = { "a list", "a list", "array" },
        [MEMBER_WORDS] = { "a mapping of keys", "an object", "object" },
        [MEMBER_MAP] = { "a mapping of keys", "an object", "object" },
        [MEMBER_OBJECT] = { "a mapping of keys", "an object", "object" },
    };
    const char *name = names[type][r->from];

    if (r->from == FROM_TOOL)
        return bad(r, "must be of type %s", name);
    if (r->path.len == 0)
        return fail(r->err, VIAL_E_VALUE, "this is not a JSON object");
    return r->from == FROM_FILE
               ? fail(r->err, VIAL_E_VALUE, "%s is not %s", r->path.data, name)
               : fail(r->err, VIAL_E_VALUE, "'%s' is not %s", r->path.data, name);
}

/* The member that SCHEMA describes. */
static struct member of_schema(const json_t *schema)
{
    static const struct {
        const char *name;
        enum member_type type;
    } types[] = {
        { "string", MEMBER_TEXT },     { "boolean", MEMBER_BOOL },
        { "integer", MEMBER_INTEGER }, { "number", MEMBER_NUMBER },
        { "array", MEMBER_LIST },      { "object", MEMBER_OBJECT },
    };
    const json_t *type = json_object_get(schema, "type");
    const char *name =
        json_string_value(json_is_array(type) ? json_array_get(type, 0) : type);
    struct member m = { .type = MEMBER_ANY,
                        .schema = schema,
                        .nullable = json_array_size(type) > 1 };

    for (size_t i = 0; name && i < sizeof(types) / sizeof(*types); i++)
        if (strcmp(types[i].name, name) == 0)
            m.type = types[i].type;
    if (m.type == MEMBER_TEXT && json_object_get(schema, "contentMediaType"))
        m.type = MEMBER_BYTES;
    return m;
}

/* Describes each entry of the list or mapping M. */
static struct member entry_of(const struct member *m)
{
    if (m->schema)
        return of_schema(json_object_get(
            m->schema, m->type == MEMBER_LIST ? "items" : "additionalProperties"));
    if (m->type == MEMBER_TEXTS || m->type == MEMBER_WORDS)
        return (struct member){ .type = MEMBER_TEXT };
    return (struct member){ .type = m->inside ? MEMBER_OBJECT : MEMBER_ANY,
                            .inside = m->inside };
}

/* The member KEY of the object M. False: there is none. */
static bool find_member(const struct member *m, const char *key, struct member *out)
{
    const json_t *properties = json_object_get(m->schema, "properties");

    if (m->type != MEMBER_OBJECT || (!m->schema && !m->inside)) {
        *out = entry_of(m);
        return true;
    }
    if (m->schema) {
        const json_t *one = json_object_get(properties, key);

        *out = one ? of_schema(one) : entry_of(m);
        return one ||
               !json_is_false(json_object_get(m->schema, "additionalProperties"));
    }
    for (const struct member *row = m->inside; row->name; row++)
        if (strcmp(row->name, key) == 0) {
            *out = *row;
            return true;
        }
    return false;
}

static void list_names(const struct member *m, const char **names)
{
    json_t *properties = json_object_get(m->schema, "properties");
    size_t count = 0;

    for (const struct member *row = m->inside; row && row->name && count < NAMES_MAX;
         row++)
        names[count++] = row->name;
    for (void *at = json_object_iter(properties); at && count < NAMES_MAX;
         at = json_object_iter_next(properties, at))
        names[count++] = json_object_iter_key(at);
}

static int refuse_unknown(struct reading *r, const struct member *m, const char *key)
{
    const char *names[NAMES_MAX + 1] = { 0 };
    const char *near = NULL;

    list_names(m, names);
    if (r->from == FROM_FILE)
        return value_unknown(r->err, "key", key, names, " in '%s'", r->path.data);
    if (r->from != FROM_TOOL)
        return value_unknown(r->err, "member", key, names, "%s", "");
    near = text_suggest(key, names);
    (void)bad(r, "has no member '%s'", value_show(key, strlen(key)).text);
    return near ? fail_remedy(r->err, "did you mean '%s'?", near) : -1;
}

static int refuse_absent(struct reading *r, const char *name)
{
    if (r->from == FROM_FILE)
        return fail(r->err, VIAL_E_VALUE, "%s lacks the key '%s'", r->path.data, name);
    return bad(r, "lacks the required member '%s'", name);
}

static int check_needed(struct reading *r, const struct member *m, const json_t *object)
{
    const json_t *required = json_object_get(m->schema, "required");

    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));

        if (!json_object_get(object, name))
            return refuse_absent(r, name);
    }
    for (const struct member *row = m->inside; row && row->name; row++)
        if (row->needed && !json_object_get(object, row->name))
            return refuse_absent(r, row->name);
    return 0;
}

/* Reads VALUE with KEY (NULL: "[INDEX]") behind the path. */
static int read_below(struct reading *r, const struct member *m, json_t *value,
                      const char *key, size_t index)
{
    size_t before = r->path.len;
    int rc;

    if (!key)
        str_printf(&r->path, "[%zu]", index);
    else
        str_printf(&r->path, "%s%s", before ? "." : "", key);
    rc = str_ok(&r->path) ? read_value(r, m, value) : fail_memory(r->err);
    r->path.len = before;
    if (r->path.data)
        r->path.data[before] = '\0';
    return rc;
}

static int read_list(struct reading *r, const struct member *m, const json_t *list)
{
    struct member entry = entry_of(m);

    for (size_t i = 0; i < json_array_size(list); i++)
        if (read_below(r, &entry, json_array_get(list, i), NULL, i) < 0)
            return -1;
    return 0;
}

static int read_object(struct reading *r, const struct member *m, json_t *object)
{
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        struct member one;

        if (!find_member(m, key, &one))
            return refuse_unknown(r, m, key);
        if (read_below(r, &one, json_object_iter_value(at), key, 0) < 0)
            return -1;
    }
    return m->type == MEMBER_OBJECT ? check_needed(r, m, object) : 0;
}

static int check_choice(struct reading *r, const json_t *choices, const json_t *value)
{
    auto_str struct str all = { 0 };

    if (!choices)
        return 0;
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const json_t *choice = json_array_get(choices, i);

        if (json_equal(choice, value))
            return 0;
        str_printf(&all, "%s%s", i ? ", " : "",
                   json_is_string(choice) ? json_string_value(choice) : "…");
    }
    return bad(r, "must be one of: %s", str_ok(&all) && all.data ? all.data : "");
}

static size_t characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* The bounds that a schema may set, of a number, a text or a list. */
static int check_bounds(struct reading *r, const json_t *schema, const json_t *value)
{
    const char *least = "minimum", *most = "maximum", *unit = "";
    double n = json_number_value(value);
    const json_t *bound;

    if (json_is_string(value)) {
        least = "minLength", most = "maxLength", unit = " characters";
        n = (double)characters(json_string_value(value));
    } else if (json_is_array(value)) {
        least = "minItems", most = "maxItems", unit = " entries";
        n = (double)json_array_size(value);
    } else if (!json_is_number(value)) {
        return 0;
    }
    if ((bound = json_object_get(schema, least)) && n < json_number_value(bound))
        return bad(r, "must be at least %.15g%s", json_number_value(bound), unit);
    if ((bound = json_object_get(schema, most)) && n > json_number_value(bound))
        return bad(r, "must be at most %.15g%s", json_number_value(bound), unit);
    return 0;
}

/* 5.0 is one, too; beyond 2^53 a real number says no more which. */
static bool is_integer(const json_t *value)
{
    double n = json_number_value(value);

    return json_is_integer(value) || (json_is_real(value) && n > -0x1p53 &&
                                      n < 0x1p53 && n == (double)(json_int_t)n);
}

static bool has_type(const struct member *m, const json_t *value)
{
    switch (m->type) {
    case MEMBER_TEXT:
    case MEMBER_BYTES:
        return json_is_string(value);
    case MEMBER_BOOL:
        return json_is_boolean(value);
    case MEMBER_COUNT:
        return m->out || (json_is_integer(value) && json_integer_value(value) >= 0);
    case MEMBER_INTEGER:
        return is_integer(value);
    case MEMBER_NUMBER:
        return json_is_number(value);
    case MEMBER_TEXTS:
    case MEMBER_LIST:
        return json_is_array(value);
    case MEMBER_WORDS:
    case MEMBER_MAP:
    case MEMBER_OBJECT:
        return json_is_object(value);
    case MEMBER_MS:
    case MEMBER_SIZE:
    case MEMBER_ANY:
        break;
    }
    return true;
}

/* Numbers are judged by what they are decoded with. */
static int take_number(const struct member *m, json_t *value, struct vial_error *err)
{
    const struct field f = { .name = m->name,
                             .type = m->type == MEMBER_MS     ? FIELD_MS
                                     : m->type == MEMBER_SIZE ? FIELD_BYTES
                                                              : FIELD_COUNT_,
                             .max = COUNT_MAX };

    return value_decode(&f, value, m->out, err);
}

static int take(const struct member *m, json_t *value, struct vial_error *err)
{
    if (m->type == MEMBER_COUNT || m->type == MEMBER_MS || m->type == MEMBER_SIZE)
        return take_number(m, value, err);
    if (m->type == MEMBER_TEXT)
        *(const char **)m->out = json_string_value(value);
    else if (m->type == MEMBER_BOOL)
        *(bool *)m->out = json_is_true(value);
    else if (m->type == MEMBER_BYTES) /* borrowed: nobody writes to it */
        *(struct blob *)m->out =
            (struct blob){ .data = (char *)(uintptr_t)json_string_value(value),
                           .len = json_string_length(value) };
    else
        *(json_t **)m->out = value;
    return 0;
}

static int read_value(struct reading *r, const struct member *m, json_t *value)
{
    int rc = 0;

    if (m->nullable && json_is_null(value))
        return 0;
    if (!has_type(m, value))
        return refuse_type(r, m->type);
    if (m->type == MEMBER_TEXT && !value_string(value))
        return r->from == FROM_TOOL ? bad(r, "holds a NUL byte")
                                    : refuse_type(r, m->type);
    if (m->schema && (check_choice(r, json_object_get(m->schema, "enum"), value) < 0 ||
                      check_bounds(r, m->schema, value) < 0))
        return -1;
    if (m->type == MEMBER_TEXTS || m->type == MEMBER_LIST)
        rc = read_list(r, m, value);
    else if (m->type != MEMBER_ANY && json_is_object(value))
        rc = read_object(r, m, value);
    return rc == 0 && m->out ? take(m, value, r->err) : rc;
}

static int read_whole(struct reading *r, const struct member *m, json_t *object)
{
    int rc = str_ok(&r->path) ? read_value(r, m, object) : fail_memory(r->err);

    str_done(&r->path);
    return rc;
}

int members_read(json_t *object, const struct member *table, const char *where,
                 struct vial_error *err)
{
    struct reading r = { .from = where ? FROM_FILE : FROM_BODY, .err = err };

    str_puts(&r.path, where ? where : "");
    return read_whole(&r, &(struct member){ .type = MEMBER_OBJECT, .inside = table },
                      object);
}

int members_judge(json_t *arguments, const json_t *schema, struct vial_error *err)
{
    struct reading r = { .from = FROM_TOOL, .err = err };
    struct member m = of_schema(schema);

    return read_whole(&r, &m, arguments);
}
