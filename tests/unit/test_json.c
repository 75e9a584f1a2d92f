/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/str.h"
#include "check.h"

/* Parses TEXT and gives the error's text, or "" when it was accepted. */
static const char *judge(const char *text, size_t len)
{
    static struct vial_error err;
    auto_json json_t *value = NULL;

    err = (struct vial_error){ 0 };
    if (json_parse(text, len, "request", &value, &err) == 0)
        return "";
    assert_null(value);
    return check_text(&err);
}

static const char *judge_text(const char *text)
{
    return judge(text, strlen(text));
}

static void any_json_value_is_accepted(void **state)
{
    static const char *const good[] = { "{}",
                                        "[]",
                                        "null",
                                        " 1 ",
                                        "\"text\"",
                                        "-1.5e3",
                                        "{\"a\":[true,false,null]}",
                                        "\t[1]\r\n",
                                        NULL };

    (void)state;
    for (const char *const *t = good; *t; t++)
        assert_string_equal(judge_text(*t), "");
}

static void code_may_hold_an_escaped_nul(void **state)
{
    static const char text[] = "{\"code\":\"a\\u0000b\"}";
    auto_json json_t *value = NULL;
    const json_t *code;
    struct vial_error err;

    (void)state;
    assert_int_equal(json_parse(text, sizeof text - 1, "request", &value, &err), 0);
    code = json_object_get(value, "code");
    assert_int_equal(json_string_length(code), 3);
    assert_memory_equal(json_string_value(code), "a\0b", 4);
}

static void an_error_names_input_line_and_column(void **state)
{
    (void)state;
    assert_string_equal(
        judge_text("{\"a\": 1,\n \"b\": x}"),
        "VIAL-JSON parse 'request': line 2, column 7: invalid token near 'x'");
    assert_string_equal(
        judge_text("{\"a\": 1, \"a\": 2}"),
        "VIAL-JSON parse 'request': line 1, column 12: duplicate object key near '\"a\"'");
    assert_string_equal(
        judge_text("{} {}"),
        "VIAL-JSON parse 'request': line 1, column 4: end of file expected near '{'");
    assert_string_equal(
        judge_text(""),
        "VIAL-JSON parse 'request': line 1, column 0: unexpected token near end of file");
}

static void a_null_text_of_no_length_is_an_error_not_a_crash(void **state)
{
    (void)state;
    assert_memory_equal(judge(NULL, 0), "VIAL-JSON", 9);
}

static void what_is_not_quite_json_is_refused(void **state)
{
    static const char *const bad[] = {
        "{",
        "[1,]",
        "{\"a\"}",
        "{'a':1}",
        "nul",
        "01",
        "+1",
        "1.",
        "[1 2]",
        "\"\t\"",
        "\"\\x41\"",
        "\"\\ud800\"",
        "// c\n1",
        "NaN",
        "Infinity",
        "1e999",
        "{\"a\":1,}",
        "\"",
        "\"\\",
        "99999999999999999999",
        "[\"\xFF\"]",
        "\"\xED\xA0\x80\"",
        "{\"a\\u0000b\":1}",
        "\xEF\xBB\xBF{}",
        "}",
        "]]]]",
        NULL,
    };

    (void)state;
    for (const char *const *t = bad; *t; t++) {
        if (strncmp(judge_text(*t), "VIAL-JSON parse 'request': line ", 32) != 0)
            fail_msg("%s gave '%s'", *t, judge_text(*t));
    }
}

static void raw_nul_bytes_are_refused(void **state)
{
    (void)state;
    assert_memory_equal(judge("[1]\0", 4), "VIAL-JSON", 9);
    assert_memory_equal(judge("\"a\0b\"", 5), "VIAL-JSON", 9);
}

static void an_error_shows_no_control_bytes_of_the_input(void **state)
{
    const char *text = judge_text("\x1b[31m");

    (void)state;
    assert_null(strchr(text, '\x1b'));
    assert_memory_equal(text, "VIAL-JSON", 9);
}

static char *lent(size_t depth, bool closed)
{
    auto_str struct str s = { 0 };

    for (size_t i = 0; i < depth; i++)
        str_puts(&s, i % 2 ? "{\"a\":" : "[");
    if (closed)
        str_puts(&s, "1");
    for (size_t i = depth; closed && i > 0; i--)
        str_puts(&s, (i - 1) % 2 ? "}" : "]");
    return str_take(&s);
}

static void depth_64_is_read_and_65_is_refused(void **state)
{
    auto_free char *good = lent(64, true);
    auto_free char *bad = lent(65, true);

    (void)state;
    assert_string_equal(judge_text(good), "");
    assert_string_equal(judge_text(bad),
                        "VIAL-JSON parse 'request': line 1, column 193: "
                        "nested deeper than 64");
}

static void a_million_open_brackets_do_not_touch_the_stack(void **state)
{
    auto_free char *deep = lent(1000000, false);

    (void)state;
    assert_string_equal(judge_text(deep),
                        "VIAL-JSON parse 'request': line 1, column 193: "
                        "nested deeper than 64");
}

static void brackets_inside_strings_are_not_depth(void **state)
{
    auto_str struct str s = { 0 };

    (void)state;
    str_puts(&s, "{\"code\":\"\\\"\\\\");
    for (int i = 0; i < 500; i++)
        str_puts(&s, "[{");
    str_puts(&s, "\"}");
    assert_string_equal(judge_text(s.data), "");
}

static void depth_is_found_behind_tricky_strings_and_counted_per_line(void **state)
{
    auto_free char *deep = lent(70, false);
    auto_str struct str s = { 0 };

    (void)state;
    str_puts(&s, "{\"a\\\\\":\n");
    str_puts(&s, deep);
    assert_string_equal(judge_text(s.data),
                        "VIAL-JSON parse 'request': line 2, column 188: "
                        "nested deeper than 64");
}

/* Small values are made 60 times as large: 32 MiB of them took 2.5 GiB. */
static void too_many_values_are_refused_before_any_is_made(void **state)
{
    auto_str struct str s = { 0 };

    (void)state;
    str_puts(&s, "[");
    for (int i = 0; i < JSON_VALUES_MAX / 2; i++)
        str_puts(&s, "{},");
    str_puts(&s, "1]");
    assert_string_equal(judge_text(s.data),
                        "VIAL-JSON parse 'request': line 1, column 393215: "
                        "more than 262144 values");
}

static void commas_inside_strings_are_no_values(void **state)
{
    auto_str struct str s = { 0 };

    (void)state;
    str_puts(&s, "{\"code\":\"");
    for (int i = 0; i < JSON_VALUES_MAX; i++)
        str_puts(&s, ",[");
    str_puts(&s, "\"}");
    assert_string_equal(judge_text(s.data), "");
}

static void closed_brackets_do_not_add_up(void **state)
{
    auto_str struct str s = { 0 };

    (void)state;
    str_puts(&s, "[0");
    for (int i = 0; i < 1000; i++)
        str_puts(&s, ",[{}]");
    str_puts(&s, "]");
    assert_string_equal(judge_text(s.data), "");
}

static int allocations_left = -1;

static void *scarce_malloc(size_t size)
{
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    return malloc(size);
}

static int plenty(void **state)
{
    (void)state;
    allocations_left = -1;
    json_set_alloc_funcs(malloc, free);
    return 0;
}

/* The code may be wrong: jansson calls a string it has no room for a bad token. */
static void every_lack_of_memory_is_an_error_and_leaks_nothing(void **state)
{
    static const char json[] = "{\"a\":[1,2.5,\"t\",{\"b\":null,\"c\":true}]}";
    static const char yaml[] = "a: [1, 2.5, 't', {b: ~, c: true}]\nd: [[]]\n";
    bool json_failed = true, yaml_failed = true;

    (void)state;
    json_set_alloc_funcs(scarce_malloc, free);
    for (int n = 0; json_failed || yaml_failed; n++) {
        auto_json json_t *a = NULL, *b = NULL;
        struct vial_error err = { 0 };

        assert_true(n < 1000);
        allocations_left = n;
        json_failed = json_parse(json, sizeof json - 1, "j", &a, &err) < 0;
        assert_true(!json_failed || err.code[0] != '\0');
        allocations_left = n;
        yaml_failed = yaml_parse(yaml, sizeof yaml - 1, "y", &b, &err) < 0;
        assert_true(!yaml_failed || err.code[0] != '\0');
        allocations_left = -1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_json_value_is_accepted),
        cmocka_unit_test(code_may_hold_an_escaped_nul),
        cmocka_unit_test(an_error_names_input_line_and_column),
        cmocka_unit_test(a_null_text_of_no_length_is_an_error_not_a_crash),
        cmocka_unit_test(what_is_not_quite_json_is_refused),
        cmocka_unit_test(raw_nul_bytes_are_refused),
        cmocka_unit_test(an_error_shows_no_control_bytes_of_the_input),
        cmocka_unit_test(depth_64_is_read_and_65_is_refused),
        cmocka_unit_test(a_million_open_brackets_do_not_touch_the_stack),
        cmocka_unit_test(brackets_inside_strings_are_not_depth),
        cmocka_unit_test(depth_is_found_behind_tricky_strings_and_counted_per_line),
        cmocka_unit_test(too_many_values_are_refused_before_any_is_made),
        cmocka_unit_test(commas_inside_strings_are_no_values),
        cmocka_unit_test(closed_brackets_do_not_add_up),
        cmocka_unit_test_teardown(every_lack_of_memory_is_an_error_and_leaks_nothing,
                                  plenty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
