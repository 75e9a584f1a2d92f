/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/fail.h"
#include "base/str.h"
#include "base/text.h"

#define DEPTH_MAX 64

void json_seed(void)
{
    size_t seed = 0;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == (ssize_t)sizeof(seed) && seed)
        json_object_seed(seed);
}

/* Where the text goes beyond a bound, and what it does there; AT is NULL if it does
 * not. */
struct excess {
    const char *at;
    char what[48];
};

/* jansson recurses, and makes of a small value one 60 times as large: so this comes
 * first. It need not care whether the text is JSON otherwise. */
static struct excess find_excess(const char *text, size_t len)
{
    struct excess e = { 0 };
    unsigned depth = 0, values = 1;
    bool quoted = false;

    for (size_t i = 0; i < len && !e.at; i++) {
        char c = text[i];
        bool opens = !quoted && (c == '[' || c == '{');

        if (c == '"')
            quoted = !quoted;
        else if (quoted)
            i += c == '\\';
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
        depth += opens;
        values += opens || (!quoted && c == ',');
        if (depth > DEPTH_MAX || values > JSON_VALUES_MAX)
            e.at = text + i;
    }
    if (depth > DEPTH_MAX)
        (void)snprintf(e.what, sizeof e.what, "nested deeper than %d", DEPTH_MAX);
    else
        (void)snprintf(e.what, sizeof e.what, "more than %d values", JSON_VALUES_MAX);
    return e;
}

static int fail_excess(const char *text, const struct excess *e, const char *name,
                       struct vial_error *err)
{
    int line = 1, column = 1;

    for (; text < e->at; text++) {
        column = *text == '\n' ? 1 : column + 1;
        line += *text == '\n';
    }
    (void)fail(err, VIAL_E_JSON, "parse '%s': line %d, column %d: %s", name, line,
               column, e->what);
    return fail_remedy(err, "write it flatter and shorter: nothing here needs so much");
}

/* jansson quotes the input, whose bytes may be anything. */
static int fail_syntax(const json_error_t *error, const char *name,
                       struct vial_error *err)
{
    auto_str struct str why = { 0 };
    struct text_safe safe = { 0 };

    /* Where memory was lacking, jansson often says nothing at all. */
    if (error->text[0] == '\0' || json_error_code(error) == json_error_out_of_memory)
        return fail_memory(err);
    text_safe(&safe, &why, error->text, strlen(error->text));
    text_safe_end(&safe, &why);
    (void)fail(err, VIAL_E_JSON, "parse '%s': line %d, column %d: %s", name,
               error->line < 1 ? 1 : error->line, error->column,
               str_ok(&why) && why.data ? why.data : "not valid JSON");
    return fail_remedy(err, "mend the JSON there; 'vial schema request' has the form");
}

int json_parse(const char *text, size_t len, const char *name, json_t **out,
               struct vial_error *err)
{
    size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
    struct excess excess = find_excess(text, len);
    json_error_t error;
    json_t *value;

    if (excess.at)
        return fail_excess(text, &excess, name, err);
    value = json_loadb(len > 0 ? text : "", len, flags, &error);
    if (!value)
        return fail_syntax(&error, name, err);
    *out = value;
    return 0;
}

/* Significant digits: times are rounded to microseconds, so 15 print them as they were
 * meant. */
#define DIGITS 15u
#define BLOCK  (16u << 10)    /* what the sink gets at once */
#define PIECE  ((size_t)6144) /* of large bytes; base64 needs a multiple of 3 */

struct writer {
    const struct json_sink *to;
    const struct json_larges *larges;
    enum json_style style;
    size_t next; /* of the large ones: they mostly come in their order */
    struct str piece;
    size_t len;
    bool failed;
    char block[BLOCK];
};

json_t *json_large(struct json_larges *l, const char *data, size_t len, bool base64)
{
    struct json_large *grown = reallocarray(l->items, l->count + 1, sizeof(*l->items));
    json_t *stand_in = json_string("");

    if (grown)
        l->items = grown;
    if (!grown || !stand_in) {
        json_decref(stand_in);
        return NULL;
    }
    l->items[l->count++] = (struct json_large){
        .stand_in = stand_in, .data = data, .len = len, .base64 = base64
    };
    return stand_in;
}

void json_larges_done(struct json_larges *l)
{
    free(l->items);
    *l = (struct json_larges){ 0 };
}

static void flush(struct writer *w)
{
    if (w->len > 0 && !w->failed && w->to->put(w->to->context, w->block, w->len) < 0)
        w->failed = true;
    w->len = 0;
}

static void add(struct writer *w, const char *data, size_t len)
{
    while (len > 0 && !w->failed) {
        size_t part = len < BLOCK - w->len ? len : BLOCK - w->len;

        memcpy(w->block + w->len, data, part);
        w->len += part;
        data += part;
        len -= part;
        if (w->len == BLOCK)
            flush(w);
    }
}

static int add_dumped(const char *data, size_t len, void *context)
{
    struct writer *w = context;

    add(w, data, len);
    return w->failed ? -1 : 0;
}

/* As jansson does it. By hand, since there can be one for each byte of an output. */
static void add_escape(struct writer *w, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    static const char digits[] = "0123456789ABCDEF";
    const char *at = c ? strchr(plain, c) : NULL;
    char text[6] = { '\\', 'u', '0', '0', digits[c >> 4], digits[c & 15] };

    if (at)
        text[1] = letters[at - plain];
    add(w, text, at ? 2 : sizeof(text));
}

/* Valid UTF-8, without quotes around it. */
static void add_escaped(struct writer *w, const char *text, size_t len)
{
    size_t from = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        add(w, text + from, i - from);
        add_escape(w, c);
        from = i + 1;
    }
    add(w, text + from, len - from);
}

static void add_piece(struct writer *w, const struct json_large *l, const char *data,
                      size_t len)
{
    w->piece.len = 0;
    if (l->base64)
        text_base64(&w->piece, data, len);
    else
        text_repair(&w->piece, data, len);
    if (!str_ok(&w->piece))
        w->failed = true;
    else if (l->base64)
        add(w, w->piece.data, w->piece.len);
    else
        add_escaped(w, w->piece.data, w->piece.len);
}

static void add_large(struct writer *w, const struct json_large *l)
{
    const char *at = l->data;
    size_t left = l->len;

    add(w, "\"", 1);
    while (left > 0 && !w->failed) {
        size_t len = left < PIECE ? left : PIECE;

        if (!l->base64 && len < left)
            len -= text_unfinished(at, len);
        add_piece(w, l, at, len);
        at += len;
        left -= len;
    }
    add(w, "\"", 1);
}

static const struct json_large *find(struct writer *w, const json_t *value)
{
    const struct json_larges *l = w->larges;

    for (size_t i = 0; l && i < l->count; i++) {
        size_t at = (w->next + i) % l->count;

        if (l->items[at].stand_in != value)
            continue;
        w->next = at + 1;
        return &l->items[at];
    }
    return NULL;
}

static void add_leaf(struct writer *w, const json_t *value)
{
    const struct json_large *large = json_is_string(value) ? find(w, value) : NULL;

    if (large)
        add_large(w, large);
    else if (json_dump_callback(value, add_dumped, w,
                                JSON_ENCODE_ANY | JSON_REAL_PRECISION(DIGITS)) < 0)
        w->failed = true;
}

static void separate(struct writer *w, const char *mark)
{
    add(w, mark, w->style == JSON_STYLE_COMPACT ? 1 : 2);
}

/* NOLINTNEXTLINE(misc-no-recursion): trees of our own, which are flat */
static void add_value(struct writer *w, const json_t *value)
{
    json_t *object = (json_t *)(uintptr_t)value; /* jansson iterates so only */
    bool first = true;

    if (json_is_object(value)) {
        add(w, "{", 1);
        for (void *at = json_object_iter(object); at;
             at = json_object_iter_next(object, at)) {
            const char *key = json_object_iter_key(at);

            if (!first)
                separate(w, ", ");
            first = false;
            add(w, "\"", 1);
            add_escaped(w, key, strlen(key));
            add(w, "\"", 1);
            separate(w, ": ");
            add_value(w, json_object_iter_value(at));
        }
        add(w, "}", 1);
    } else if (json_is_array(value)) {
        add(w, "[", 1);
        for (size_t i = 0; i < json_array_size(value); i++) {
            if (i > 0)
                separate(w, ", ");
            add_value(w, json_array_get(value, i));
        }
        add(w, "]", 1);
    } else {
        add_leaf(w, value);
    }
}

int json_write(const json_t *value, const struct json_larges *l, enum json_style style,
               const struct json_sink *to)
{
    struct writer *w = calloc(1, sizeof(*w));
    bool failed;

    if (!w)
        return -1;
    w->to = to;
    w->larges = l;
    w->style = style;
    add_value(w, value);
    flush(w);
    failed = w->failed;
    str_done(&w->piece);
    free(w);
    return failed ? -1 : 0;
}
