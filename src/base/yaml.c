/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/fail.h"
#include "base/io.h"
#include "base/json.h"
#include "base/str.h"
#include "base/text.h"

#define DEPTH_MAX  32
#define BYTES_MAX  (1u << 20)
#define VALUES_MAX 65536
#define DIGITS     "0123456789"

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++) {
        if (strcmp(text, *words) == 0)
            return true;
    }
    return false;
}

static bool is_all(const char *text, const char *set)
{
    return *text != '\0' && text[strspn(text, set)] == '\0';
}

static const char *skip_sign(const char *text)
{
    return *text == '-' || *text == '+' ? text + 1 : text;
}

static json_t *integer(const char *digits, int base)
{
    long long value;

    errno = 0;
    value = strtoll(digits, NULL, base);
    return errno ? NULL : json_integer(value);
}

/* [-+]? ( "." digits | digits [ "." digits? ] ) [ (e|E) [-+]? digits ] */
static bool is_float(const char *text)
{
    const char *at = skip_sign(text);
    size_t whole = strspn(at, DIGITS), part = 0;

    at += whole;
    if (*at == '.') {
        part = strspn(at + 1, DIGITS);
        at += 1 + part;
    }
    if (whole + part == 0)
        return false;
    return *at == '\0' ||
           ((*at == 'e' || *at == 'E') && is_all(skip_sign(at + 1), DIGITS));
}

/* Through jansson, which like JSON knows no locale. JSON wants digits on both
 * sides of the point, and no plus or zero before them. */
static json_t *real(const char *text)
{
    auto_str struct str s = { 0 };
    const char *at = skip_sign(text);
    size_t n;

    if (*text == '-')
        str_putc(&s, '-');
    at += strspn(at, "0");
    n = strspn(at, DIGITS);
    str_add(&s, n ? at : "0", n ? n : 1);
    at += n;
    if (*at == '.') {
        n = strspn(++at, DIGITS);
        str_putc(&s, '.');
        str_add(&s, n ? at : "0", n ? n : 1);
        at += n;
    } else {
        str_puts(&s, ".0"); /* "1e3" is a real here too */
    }
    str_puts(&s, at);
    return str_ok(&s) ? json_loadb(s.data, s.len, JSON_DECODE_ANY, NULL) : NULL;
}

/* New reference; NULL when it is a number that no JSON value can hold, is not
 * UTF-8, or memory is lacking. TEXT is NUL-terminated. */
static json_t *plain_scalar(const char *text, size_t len)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
    static const char *const yes[] = { "true", "True", "TRUE", NULL };
    static const char *const no[] = { "false", "False", "FALSE", NULL };

    if (is_one_of(text, nulls))
        return json_null();
    if (is_one_of(text, yes))
        return json_true();
    if (is_one_of(text, no))
        return json_false();
    if (is_all(skip_sign(text), DIGITS))
        return integer(text, 10);
    if (str_starts(text, "0x") && is_all(text + 2, DIGITS "abcdefABCDEF"))
        return integer(text + 2, 16);
    if (str_starts(text, "0o") && is_all(text + 2, "01234567"))
        return integer(text + 2, 8);
    if (is_float(text))
        return real(text);
    return json_stringn(text, len);
}

/* A document under construction. Containers on the stack are borrowed from
 * ROOT; KEY is set between a mapping's key and its value. */
struct builder {
    json_t *root;
    json_t *stack[DEPTH_MAX];
    size_t depth, values;
    char *key;
    bool done;
    const char *name;
    struct vial_error *err;
};

static void builder_done(struct builder *b)
{
    json_decref(b->root);
    free(b->key);
}

static int refuse(const struct builder *b, const yaml_mark_t *mark, const char *why)
{
    return fail(b->err, VIAL_E_YAML, "parse '%s': line %zu, column %zu: %s", b->name,
                mark->line + 1, mark->column + 1, why);
}

static bool wants_key(const struct builder *b)
{
    return b->depth > 0 && json_is_object(b->stack[b->depth - 1]) && !b->key;
}

/* Takes VALUE. */
static int attach(struct builder *b, json_t *value)
{
    json_t *into = b->depth > 0 ? b->stack[b->depth - 1] : NULL;
    int rc;

    if (!into) {
        b->root = value;
        return 0;
    }
    if (json_is_array(into))
        rc = json_array_append_new(into, value);
    else
        rc = json_object_set_new(into, b->key, value);
    free(b->key);
    b->key = NULL;
    return rc < 0 ? fail_memory(b->err) : 0;
}

static int add_key(struct builder *b, const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;

    if (memchr(text, '\0', len) || !text_is_utf8(text, len))
        return refuse(b, &e->start_mark, "a key is not text");
    if (json_object_get(b->stack[b->depth - 1], text))
        return refuse(b, &e->start_mark, "duplicate key");
    b->key = strndup(text, len);
    return b->key ? 0 : fail_memory(b->err);
}

static int add_scalar(struct builder *b, const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;
    json_t *value;

    if (e->data.scalar.anchor)
        return refuse(b, &e->start_mark, "anchors and aliases are not allowed");
    if (e->data.scalar.tag)
        return refuse(b, &e->start_mark, "tags are not allowed");
    if (wants_key(b))
        return add_key(b, e);
    if (e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        value = plain_scalar(text, len);
    else
        value = json_stringn(text, len);
    if (!value)
        return refuse(b, &e->start_mark, "a value is out of range or not text");
    return attach(b, value);
}

static int add_container(struct builder *b, const yaml_event_t *e, bool mapping)
{
    const yaml_char_t *anchor =
        mapping ? e->data.mapping_start.anchor : e->data.sequence_start.anchor;
    const yaml_char_t *tag =
        mapping ? e->data.mapping_start.tag : e->data.sequence_start.tag;
    json_t *value;

    if (anchor)
        return refuse(b, &e->start_mark, "anchors and aliases are not allowed");
    if (tag)
        return refuse(b, &e->start_mark, "tags are not allowed");
    if (wants_key(b))
        return refuse(b, &e->start_mark, "a key is not text");
    if (b->depth == DEPTH_MAX)
        return refuse(b, &e->start_mark, "nested deeper than 32");
    value = mapping ? json_object() : json_array();
    if (!value)
        return fail_memory(b->err);
    if (attach(b, value) < 0)
        return -1;
    b->stack[b->depth++] = value;
    return 0;
}

/* An empty document arrives as no document, or as an empty plain scalar. */
static int add_first(struct builder *b, const yaml_event_t *e)
{
    if (b->root)
        return refuse(b, &e->start_mark, "more than one document");
    return 0;
}

static int add(struct builder *b, const yaml_event_t *e)
{
    if (++b->values > VALUES_MAX) /* events, which are no fewer */
        return refuse(b, &e->start_mark, "more than 65536 values");
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        return add_first(b, e);
    case YAML_ALIAS_EVENT:
        return refuse(b, &e->start_mark, "anchors and aliases are not allowed");
    case YAML_SCALAR_EVENT:
        if (b->depth == 0 && e->data.scalar.length == 0 &&
            e->data.scalar.plain_implicit)
            return attach(b, json_object());
        return add_scalar(b, e);
    case YAML_SEQUENCE_START_EVENT:
        return add_container(b, e, false);
    case YAML_MAPPING_START_EVENT:
        return add_container(b, e, true);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return 0;
    case YAML_STREAM_END_EVENT:
        b->done = true;
        return 0;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    }
    return 0;
}

static int fail_parser(const struct builder *b, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return fail_memory(b->err);
    return refuse(b, &parser->problem_mark,
                  parser->problem ? parser->problem : "not valid YAML");
}

static int build(struct builder *b, yaml_parser_t *parser)
{
    while (!b->done) {
        yaml_event_t event;
        int rc;

        if (!yaml_parser_parse(parser, &event))
            return fail_parser(b, parser);
        rc = add(b, &event);
        yaml_event_delete(&event);
        if (rc < 0)
            return -1;
    }
    if (!b->root)
        b->root = json_object();
    return b->root ? 0 : fail_memory(b->err);
}

int yaml_parse(const char *text, size_t len, const char *name, json_t **out,
               struct vial_error *err)
{
    __attribute__((cleanup(builder_done))) struct builder b = { .name = name,
                                                                .err = err };
    yaml_parser_t parser;
    int rc;

    if (len > BYTES_MAX)
        return fail(err, VIAL_E_YAML, "parse '%s': more than %u bytes", name,
                    BYTES_MAX);
    if (!yaml_parser_initialize(&parser))
        return fail_memory(err);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    rc = build(&b, &parser);
    yaml_parser_delete(&parser);
    if (rc == 0)
        *out = ptr_take(&b.root);
    return rc;
}

int yaml_read(const char *path, json_t **out, struct vial_error *err)
{
    struct blob text = { 0 };
    int rc;

    if (io_read_file(path, BYTES_MAX, &text, err) < 0)
        return -1;
    rc = yaml_parse(text.data, text.len, path, out, err);
    blob_done(&text);
    return rc;
}
