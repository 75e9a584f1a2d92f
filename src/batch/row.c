/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/row.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "batch/lines.h"
#include "model/fields.h"
#include "model/value.h"

#define TESTS_MOST  10000u
#define SLIP_LENGTH 5u   /* shorter names are near too many */
#define SLIP_LINES  100u /* in which slips are looked for */
#define BOM         "\xef\xbb\xbf"

static const char *const test_members[] = { "stdin",           "args",
                                            "files",           "expected",
                                            "checker",         "stdin_base64",
                                            "expected_base64", NULL };

static bool is_one_of(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static void hash_line(const char *text, size_t len, char out[17])
{
    struct sha256 h;
    char hex[65];

    sha256_init(&h);
    sha256_add(&h, text, len);
    sha256_text(&h, hex);
    (void)snprintf(out, 17, "%.16s", hex);
}

static int refuse_value(struct vial_error *err, const char *what, const char *remedy)
{
    (void)fail(err, VIAL_E_VALUE, "%s", what);
    return fail_remedy(err, "%s", remedy);
}

/* MEMBER_base64, or NULL. */
static json_t *coded_of(const json_t *object, const char *member)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "%s_base64", member);
    return json_object_get(object, name);
}

int row_bytes(const json_t *test, const char *member, struct blob *out)
{
    const json_t *text = json_object_get(test, member);
    const json_t *coded = coded_of(test, member);
    int rc;

    if (!text && !coded)
        return 0;
    if (text)
        rc = blob_set(out, json_string_value(text), json_string_length(text));
    else
        rc = text_unbase64(json_string_value(coded), json_string_length(coded), out);
    return rc < 0 ? -1 : 1;
}

static int check_coded(const json_t *object, const char *member, struct vial_error *err)
{
    auto_blob struct blob bytes = { 0 };
    const json_t *text = json_object_get(object, member);
    const json_t *coded = coded_of(object, member);

    if (text && !json_is_string(text))
        return fail(err, VIAL_E_VALUE, "'%s' is not a text", member);
    if (!coded)
        return 0;
    if (text)
        return fail(err, VIAL_E_VALUE, "both '%s' and '%s_base64' are given", member,
                    member);
    if (json_is_string(coded) &&
        text_unbase64(json_string_value(coded), json_string_length(coded), &bytes) == 0)
        return 0;
    (void)fail(err, VIAL_E_VALUE, "'%s_base64' is not base64", member);
    return fail_remedy(err, "give the bytes in base64, or text as '%s'", member);
}

static int check_judge(const json_t *test, struct vial_error *err)
{
    const json_t *expected = json_object_get(test, "expected");
    const json_t *checker = json_object_get(test, "checker");

    if (expected && !json_is_string(expected))
        return refuse_value(err, "'expected' is not a text",
                            "give what the program shall print, as a string");
    if (checker && !json_is_object(checker))
        return refuse_value(err, "'checker' is not an object of fields",
                            "give its language and code");
    return check_coded(test, "stdin", err) < 0 ? -1
                                               : check_coded(test, "expected", err);
}

static int check_test(json_t *test, struct vial_error *err)
{
    if (!json_is_object(test))
        return refuse_value(err, "it is not an object",
                            "give stdin, args, files, expected or checker");
    for (void *at = json_object_iter(test); at; at = json_object_iter_next(test, at))
        if (!is_one_of(test_members, json_object_iter_key(at)))
            return value_unknown(err, "member", json_object_iter_key(at), test_members,
                                 "%s", "");
    return check_judge(test, err);
}

static int check_tests(json_t *tests, struct vial_error *err)
{
    _Static_assert(TESTS_MOST == 10000u, "as the words below say");
    if (!json_is_array(tests) || json_array_size(tests) == 0 ||
        json_array_size(tests) > TESTS_MOST)
        return refuse_value(err, "'tests' is not a list of 1 to 10000 objects",
                            "give one object for each input of the program");
    for (size_t i = 0; i < json_array_size(tests); i++)
        if (check_test(json_array_get(tests, i), err) < 0)
            return fail_in(err, "test %zu", i + 1);
    return 0;
}

/* What stands in the row holds for those of its tests that say nothing. */
static void spread(json_t *tests, const char *member, json_t *value,
                   const char *instead)
{
    json_t *test;
    size_t i;

    json_array_foreach(tests, i, test)
    {
        if (value && !json_object_get(test, member) &&
            !(instead && json_object_get(test, instead)))
            (void)json_object_set(test, member, value);
    }
}

/* A row without tests is one with a single test that changes nothing. */
static int take_tests(struct row *row, json_t *object, struct vial_error *err)
{
    json_t *tests = json_object_get(object, "tests");
    json_t *expected = json_object_get(object, "expected");
    json_t *coded = json_object_get(object, "expected_base64");
    json_t *only;

    if (check_judge(object, err) < 0)
        return -1;
    row->is_single = tests == NULL;
    if (tests && (expected || coded))
        return fail(err, VIAL_E_VALUE, "'expected' belongs into each of the 'tests'");
    if (tests) {
        row->tests = json_incref(tests);
        if (check_tests(tests, err) < 0)
            return -1;
    } else {
        only =
            json_pack("{s:O*, s:O*}", "expected", expected, "expected_base64", coded);
        row->tests = json_pack("[o]", only);
    }
    spread(row->tests, "checker", json_object_get(object, "checker"), NULL);
    spread(row->tests, "stdin_base64", json_object_get(object, "stdin_base64"),
           "stdin");
    return row->tests ? 0 : fail_memory(err);
}

static void sort_members(struct row *row, json_t *object)
{
    static const char *const ours[] = { "tests",        "expected", "compare",
                                        "checker",      "id",       "expected_base64",
                                        "stdin_base64", NULL };
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        if (field_find(name))
            (void)json_object_set(row->fields, name, value);
        else if (!is_one_of(ours, name))
            (void)json_object_set(row->rest, name, value);
    }
}

/* Whether NAME was meant to be a field: a plural is a name of its own. */
static const char *meant_by(const char *name)
{
    const char *near =
        strlen(name) < SLIP_LENGTH ? NULL : text_suggest(name, field_names);
    bool differs = near && strncmp(name, near, strlen(name)) != 0 &&
                   strncmp(name, near, strlen(near)) != 0;

    return differs && near[0] == name[0] ? near : NULL;
}

static void find_slip(struct row *row)
{
    for (void *at = json_object_iter(row->rest);
         at && !row->meant && row->line <= SLIP_LINES;
         at = json_object_iter_next(row->rest, at)) {
        row->slip = json_object_iter_key(at);
        row->meant = meant_by(row->slip);
    }
}

static void name_row(struct row *row, json_t *object)
{
    json_t *id = json_object_get(object, "id");

    if (!json_is_string(id) && !json_is_integer(id))
        id = json_object_get(object, "task_id");
    if (json_is_string(id) || json_is_integer(id))
        row->id = json_incref(id);
}

/* Whether any row may set it: what only a request has, but for a directory of the host,
 * and what a project's file may set. */
static bool is_open(const struct field *f)
{
    return field_id_of(f) != FIELD_ID_workspace &&
           (f->scope == FIELD_IN_REQUEST || (f->scope & FIELD_IN_PROJECT));
}

static int check_open(json_t *object, struct vial_error *err)
{
    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        const struct field *f = field_find(json_object_iter_key(at));

        if (!f || is_open(f))
            continue;
        (void)fail(err, VIAL_E_POLICY, "a row cannot set '%s'", f->name);
        return fail_remedy(err, "set it for all rows by its flag; --trust-rows lets "
                                "rows set anything");
    }
    return 0;
}

static int check_fields(const struct row *row, struct vial_error *err)
{
    if (check_open(row->fields, err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(row->tests); i++) {
        json_t *test = json_array_get(row->tests, i);

        if (check_open(json_object_get(test, "checker"), err) < 0)
            return fail_in(err, "the checker");
    }
    return 0;
}

static int read_object(struct row *row, json_t *object, const struct row_rules *rules,
                       struct vial_error *err)
{
    const json_t *compare = json_object_get(object, "compare");

    if (!json_is_object(object))
        return refuse_value(err, "the line is not a JSON object",
                            "write one object a line, as {\"language\": \"python\", "
                            "\"code\": \"print(1)\"}");
    name_row(row, object);
    sort_members(row, object);
    find_slip(row);
    if (compare && !json_is_string(compare))
        return fail(err, VIAL_E_VALUE, "'compare' is not a text");
    if (compare && compare_parse(json_string_value(compare), &row->compare, err) < 0)
        return -1;
    if (take_tests(row, object, err) < 0)
        return -1;
    return rules->trusts ? 0 : check_fields(row, err);
}

bool row_is_blank(const char *text, size_t len)
{
    size_t at = 0;

    while (at < len && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' ||
                        text[at] == '\n'))
        at++;
    return at == len;
}

void row_read(const char *text, size_t len, const struct row_rules *rules,
              struct row *out)
{
    auto_json json_t *object = NULL;

    out->fields = json_object();
    out->rest = json_object();
    out->compare = rules->compare;
    hash_line(text, len, out->hash);
    if (out->line == 1 && len >= strlen(BOM) && memcmp(text, BOM, strlen(BOM)) == 0) {
        text += strlen(BOM); /* as Windows' editors begin a file */
        len -= strlen(BOM);
    }
    if (len > LINES_MOST)
        (void)fail(&out->error, VIAL_E_VALUE, "the line is longer than %zu MiB",
                   LINES_MOST >> 20);
    else if (json_parse(text, len, "the line", &object, &out->error) == 0)
        (void)read_object(out, object, rules, &out->error);
    if (!out->id)
        out->id = json_integer((json_int_t)out->line);
}

void row_done(struct row *row)
{
    json_decref(row->id);
    json_decref(row->fields);
    json_decref(row->tests);
    json_decref(row->rest);
    *row = (struct row){ 0 };
}
