/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/secret_block.h"

#include <string.h>

#include "base/fail.h"
#include "model/members.h"
#include "model/secret.h"
#include "model/value.h"

struct block {
    const char *from, *ca, *shape;
    json_t *hosts, *only, *headers, *max_request, *max_response;
};

static void add_list(struct strv *to, const char *word, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        strv_printf(to, "%s %s", word, json_string_value(json_array_get(list, i)));
}

static int add_size(struct strv *to, const char *word, json_t *value,
                    struct vial_error *err)
{
    const struct field f = { word, FIELD_BYTES, FIELD_IN_SETTINGS, NULL,
                             NULL, 1,           INT64_C(1) << 50,  NULL,
                             NULL };
    int64_t bytes = 0;

    if (!value)
        return 0;
    if (value_decode(&f, value, &bytes, err) < 0)
        return -1;
    strv_printf(to, "%s %lld", word, (long long)bytes);
    return 0;
}

static int add_lines(struct strv *to, const char *name, const struct block *b,
                     struct vial_error *err)
{
    strv_printf(to, "secret %s", name);
    strv_printf(to, "from %s", b->from);
    add_list(to, "host", b->hosts);
    add_list(to, "only", b->only);
    for (void *at = json_object_iter(b->headers); at;
         at = json_object_iter_next(b->headers, at))
        strv_printf(to, "header %s: %s", json_object_iter_key(at),
                    json_string_value(json_object_iter_value(at)));
    if (add_size(to, "request", b->max_request, err) < 0 ||
        add_size(to, "response", b->max_response, err) < 0)
        return -1;
    if (b->ca)
        strv_printf(to, "ca %s", b->ca);
    if (b->shape)
        strv_printf(to, "shape %s", b->shape);
    return strv_ok(to) ? 0 : fail_memory(err);
}

static int read_one(struct strv *lines, const char *name, json_t *value,
                    struct vial_error *err)
{
    struct block b = { 0 };
    const struct member table[] = { { "from", MEMBER_TEXT, &b.from, .needed = true },
                                    { "hosts", MEMBER_TEXTS, &b.hosts, .needed = true },
                                    { "only", MEMBER_TEXTS, &b.only },
                                    { "headers", MEMBER_WORDS, &b.headers },
                                    { "max_request", MEMBER_ANY, &b.max_request },
                                    { "max_response", MEMBER_ANY, &b.max_response },
                                    { "ca", MEMBER_TEXT, &b.ca },
                                    { "shape", MEMBER_TEXT, &b.shape },
                                    { 0 } };
    auto_strv struct strv one = { 0 }, twin = { 0 };
    struct secret s;
    size_t at = 0;
    const char *wrong = NULL;

    if (members_read(value, table, "a secret", err) < 0 ||
        add_lines(&one, name, &b, err) < 0)
        return -1;
    wrong = secret_read(one.items, one.count, &at, &s);
    if (!wrong && at != one.count)
        wrong = "a value has the form of another secret";
    if (!wrong && secret_find(lines, name, &twin))
        wrong = "it is defined already, in a file that comes first";
    if (!wrong && lines->count + one.count > SECRET_LINES_MAX)
        wrong = "there are too many";
    if (wrong)
        return fail(err, VIAL_E_VALUE, "%s", wrong);
    strv_copy(lines, &one);
    return strv_ok(lines) ? 0 : fail_memory(err);
}

int secret_block_read(struct strv *lines, json_t *object, const char *where,
                      struct vial_error *err)
{
    if (!json_is_object(object))
        return fail(err, VIAL_E_VALUE, "%s: secrets is not an object", where);
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        struct shown shown = value_show(name, strlen(name));

        if (read_one(lines, name, json_object_iter_value(at), err) < 0)
            return fail_in(err, "%s: secret '%s'", where, shown.text);
    }
    return 0;
}

json_t *secret_block_schema(void)
{
    json_t *texts =
        json_pack("{s:s, s:{s:s}}", "type", "array", "items", "type", "string");
    json_t *text = json_pack("{s:s}", "type", "string");
    json_t *size = json_pack("{s:[s, s]}", "type", "integer", "string");
    json_t *one = json_pack(
        "{s:s, s:[s, s], s:b, s:{s:O, s:O, s:O, s:{s:s, s:O}, s:O, s:O, s:O, s:O}}",
        "type", "object", "required", "from", "hosts", "additionalProperties", 0,
        "properties", "from", text, "hosts", texts, "only", texts, "headers", "type",
        "object", "additionalProperties", text, "max_request", size, "max_response",
        size, "ca", text, "shape", text);

    json_decref(texts);
    json_decref(text);
    json_decref(size);
    return json_pack("{s:s, s:o}", "type", "object", "additionalProperties", one);
}

json_t *secret_block_json(const struct strv *lines)
{
    json_t *all = json_object();
    size_t at = 0;

    while (at < lines->count) {
        size_t first = at;
        struct secret s;
        json_t *hosts = json_array();

        if (secret_read(lines->items, lines->count, &at, &s))
            at = lines->count; /* it was judged before */
        for (size_t i = first; i < at; i++)
            if (str_starts(lines->items[i], "host "))
                (void)json_array_append_new(
                    hosts, json_string(lines->items[i] + strlen("host ")));
        (void)json_object_set_new(
            all, s.name ? s.name : "",
            json_pack("{s:s?, s:o}", "from", s.from, "hosts", hosts));
    }
    return all;
}
