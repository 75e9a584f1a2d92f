/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/str.h"
#include "check.h"

/* YAML as compact JSON with sorted keys, or the error's text. malloc'ed. */
static char *convert(const char *text, size_t len)
{
    auto_json json_t *value = NULL;
    struct vial_error err = { 0 };

    if (yaml_parse(text, len, "f.yaml", &value, &err) < 0) {
        assert_null(value);
        return strdup(check_text(&err));
    }
    return json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
}

static void check(const char *yaml, const char *want)
{
    auto_free char *got = convert(yaml, strlen(yaml));

    assert_string_equal(got, want);
}

static void check_refused(const char *yaml, const char *why)
{
    auto_free char *got = convert(yaml, strlen(yaml));

    if (strncmp(got, "VIAL-YAML parse 'f.yaml': line ", 31) != 0 || !strstr(got, why))
        fail_msg("'%s' gave '%s'", yaml, got);
}

static void mappings_and_sequences_become_objects_and_arrays(void **state)
{
    (void)state;
    check("a: 1\nb:\n  - x\n  - {c: d, e: [f]}\n",
          "{\"a\":1,\"b\":[\"x\",{\"c\":\"d\",\"e\":[\"f\"]}]}");
    check("- - a\n- []\n- {}\n", "[[\"a\"],[],{}]");
    check("{\"json\": [1, 2.5, true, null, \"s\"]}",
          "{\"json\":[1,2.5,true,null,\"s\"]}");
    check("---\na: 1\n...\n", "{\"a\":1}");
    check("word", "\"word\"");
}

static void an_empty_document_is_an_empty_object(void **state)
{
    (void)state;
    check("", "{}");
    check("# only a comment\n", "{}");
    check("---\n", "{}");
    check("--- \n...\n", "{}");
    check("null", "null");
    check("''", "\"\"");
}

static void plain_scalars_follow_the_core_schema(void **state)
{
    (void)state;
    check("[null, Null, NULL, ~, ]", "[null,null,null,null]");
    check("a:\nb: ", "{\"a\":null,\"b\":null}");
    check("[true, True, TRUE, false, False, FALSE]",
          "[true,true,true,false,false,false]");
    check("[0, 7, -7, +7, 0644, 0x1F, 0o17, 9223372036854775807, -9223372036854775808]",
          "[0,7,-7,7,644,31,15,9223372036854775807,-9223372036854775808]");
    check("[1.5, -0.5, .5, 5., +1.5, 1e3, 1E-2, 007.25, 0.0, -.5e1]",
          "[1.5,-0.5,0.5,5.0,1.5,1000.0,0.01,7.25,0.0,-5.0]");
}

static void what_the_core_schema_does_not_know_is_text(void **state)
{
    (void)state;
    check("[yes, no, on, off, y, n, nULL, tRUE]",
          "[\"yes\",\"no\",\"on\",\"off\",\"y\",\"n\",\"nULL\",\"tRUE\"]");
    check(
        "[5s, 256m, 1.2.3, 1_000, 0x, 0xg, 0o8, '-', +, ., -., 1e, e1, 12:30]",
        "[\"5s\",\"256m\",\"1.2.3\",\"1_000\",\"0x\",\"0xg\",\"0o8\",\"-\",\"+\",\".\","
        "\"-.\",\"1e\",\"e1\",\"12:30\"]");
    check("[.inf, -.inf, .nan, -0x1, 2024-01-01]",
          "[\".inf\",\"-.inf\",\".nan\",\"-0x1\",\"2024-01-01\"]");
}

static void quoted_scalars_are_always_text(void **state)
{
    (void)state;
    check("['1', \"true\", 'null', \"~\", \"\", '1.5']",
          "[\"1\",\"true\",\"null\",\"~\",\"\",\"1.5\"]");
    check("a: |\n  1\nb: >\n  2\n", "{\"a\":\"1\\n\",\"b\":\"2\\n\"}");
    check("\"a\\0b\"", "\"a\\u0000b\"");
}

static void keys_are_text_whatever_they_look_like(void **state)
{
    (void)state;
    check("1: a\ntrue: b\n~: c\n<<: d\n",
          "{\"1\":\"a\",\"<<\":\"d\",\"true\":\"b\",\"~\":\"c\"}");
}

static void a_decimal_point_does_not_depend_on_the_locale(void **state)
{
    const char *set = setlocale(LC_NUMERIC, "de_DE.UTF-8");

    (void)state;
    check("1.5", "1.5");
    (void)setlocale(LC_NUMERIC, "C");
    if (!set)
        print_message("de_DE.UTF-8 is not installed: checked in C only\n");
}

static void numbers_no_json_value_can_hold_are_refused(void **state)
{
    (void)state;
    check_refused("a: 9223372036854775808",
                  "line 1, column 4: a value is out of range");
    check_refused("1e999", "out of range");
    check_refused("0xFFFFFFFFFFFFFFFF", "out of range");
}

static void an_error_names_file_line_and_column(void **state)
{
    (void)state;
    check("a: 1\nb: [\n", "VIAL-YAML parse 'f.yaml': line 3, column 1: did not find "
                          "expected node content");
    check("a: 1\nc: 2\na: 3\n",
          "VIAL-YAML parse 'f.yaml': line 3, column 1: duplicate key");
}

static void what_could_hide_or_multiply_content_is_refused(void **state)
{
    (void)state;
    check_refused("a: &x 1", "anchors and aliases are not allowed");
    check_refused("a: &x [1]", "anchors and aliases are not allowed");
    check_refused("a: &x {b: 1}", "anchors and aliases are not allowed");
    check_refused("&k a: 1", "anchors and aliases are not allowed");
    check_refused("a: *x", "anchors and aliases are not allowed");
    check_refused("a: !!str 1", "tags are not allowed");
    check_refused("a: !x [1]", "tags are not allowed");
    check_refused("!!map {a: 1}", "tags are not allowed");
    check_refused("! a", "tags are not allowed");
    check_refused("!!str", "tags are not allowed");
    check_refused("{a: 1, a: 2}", "duplicate key");
    check_refused("{1: a, '1': b}", "duplicate key");
    check_refused("a: 1\n---\nb: 2\n", "line 2, column 1: more than one document");
    check_refused("---\n---\n", "more than one document");
}

static void a_key_that_is_not_text_is_refused(void **state)
{
    (void)state;
    check_refused("? [a]\n: b", "a key is not text");
    check_refused("? {a: b}\n: b", "a key is not text");
    check_refused("\"a\\0b\": 1", "a key is not text");
}

static void what_is_no_yaml_is_refused(void **state)
{
    static const char *const bad[] = {
        "a: b: c", "[1",       "}",           "a\n\tb: c", "@x",   "\"open",
        "%",       "\"\\q\"",  "\xFF\xFE",    "a: \xC3",   "\x01", "- a\nb: c",
        "'",       "a: 'b' c", "\"\\ud800\"", NULL
    };

    (void)state;
    for (const char *const *t = bad; *t; t++)
        check_refused(*t, "");
}

static void nul_bytes_and_utf16_are_refused(void **state)
{
    auto_free char *nul = convert("a: b\0c", 6);
    auto_free char *utf16 = convert("\xFF\xFE"
                                    "a\0",
                                    4);

    (void)state;
    assert_memory_equal(nul, "VIAL-YAML", 9);
    assert_memory_equal(utf16, "VIAL-YAML", 9);
}

static void check_depth(const char *open, const char *leaf, size_t depth,
                        const char *want)
{
    auto_str struct str s = { 0 };
    auto_free char *got = NULL;

    for (size_t i = 0; i < depth; i++)
        str_puts(&s, open);
    str_puts(&s, leaf);
    for (size_t i = 0; i < depth && leaf[0]; i++)
        str_putc(&s, open[0] == '[' ? ']' : '}');
    got = convert(s.data, s.len);
    if (!strstr(got, want))
        fail_msg("depth %zu gave '%s'", depth, got);
}

static void depth_32_is_read_and_33_is_refused(void **state)
{
    (void)state;
    check_depth("[", "1", 32, "[[1]]");
    check_depth("[", "1", 33, "line 1, column 33: nested deeper than 32");
    check_depth("{a: ", "1", 32, "{\"a\":1}");
    check_depth("{a: ", "1", 33, "nested deeper than 32");
    check_depth("[", "", 1000000, "nested deeper than 32");
    check_depth("- ", "", 1000, "nested deeper than 32");
}

static void too_many_values_are_refused(void **state)
{
    auto_str struct str s = { 0 };

    (void)state;
    str_puts(&s, "[");
    for (int i = 0; i < 70000; i++)
        str_puts(&s, "[],");
    str_puts(&s, "1]");
    check_refused(s.data, "more than 65536 values");
}

static void more_than_a_mebibyte_is_refused(void **state)
{
    size_t len = ((size_t)1 << 20) + 1;
    auto_free char *text = malloc(len);
    auto_free char *over = NULL, *just = NULL;

    (void)state;
    assert_non_null(text);
    memset(text, '#', len);
    over = convert(text, len);
    just = convert(text, len - 1);
    assert_string_equal(over, "VIAL-YAML parse 'f.yaml': more than 1048576 bytes");
    assert_string_equal(just, "{}");
}

static void a_file_is_read_and_named_in_errors(void **state)
{
    char path[] = "/tmp/vial-test-yaml-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    auto_json json_t *value = NULL;
    struct vial_error err;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, "a: 1\n", 5), 0);
    assert_int_equal(yaml_read(path, &value, &err), 0);
    assert_int_equal(json_integer_value(json_object_get(value, "a")), 1);
    assert_int_equal(io_write_all(fd, "a: 2\n", 5), 0);
    assert_int_equal(yaml_read(path, &value, &err), -1);
    assert_non_null(strstr(err.message, path));
    (void)close(fd);
    (void)unlink(path);
    assert_int_equal(yaml_read(path, &value, &err), -1);
    assert_string_equal(err.code, "VIAL-FILE");
    assert_int_equal(err.sys, ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mappings_and_sequences_become_objects_and_arrays),
        cmocka_unit_test(an_empty_document_is_an_empty_object),
        cmocka_unit_test(plain_scalars_follow_the_core_schema),
        cmocka_unit_test(what_the_core_schema_does_not_know_is_text),
        cmocka_unit_test(quoted_scalars_are_always_text),
        cmocka_unit_test(keys_are_text_whatever_they_look_like),
        cmocka_unit_test(a_decimal_point_does_not_depend_on_the_locale),
        cmocka_unit_test(numbers_no_json_value_can_hold_are_refused),
        cmocka_unit_test(an_error_names_file_line_and_column),
        cmocka_unit_test(what_could_hide_or_multiply_content_is_refused),
        cmocka_unit_test(a_key_that_is_not_text_is_refused),
        cmocka_unit_test(what_is_no_yaml_is_refused),
        cmocka_unit_test(nul_bytes_and_utf16_are_refused),
        cmocka_unit_test(depth_32_is_read_and_33_is_refused),
        cmocka_unit_test(too_many_values_are_refused),
        cmocka_unit_test(more_than_a_mebibyte_is_refused),
        cmocka_unit_test(a_file_is_read_and_named_in_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
