/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The file under test is included, so that its allocations can be made to
 * fail: the n-th one from now, and all that follow.
 */

#include <stdbool.h>
#include <stdlib.h>

#include "check.h"

static int allocations_left = -1; /* -1: no end */

static bool may_allocate(void)
{
    if (allocations_left == 0)
        return false;
    if (allocations_left > 0)
        allocations_left--;
    return true;
}

#define malloc(size)             (may_allocate() ? malloc(size) : NULL)
#define realloc(p, size)         (may_allocate() ? realloc(p, size) : NULL)
#define reallocarray(p, n, size) (may_allocate() ? reallocarray(p, n, size) : NULL)
#undef strdup
#define strdup(text) (may_allocate() ? strdup(text) : NULL)
#include "base/str.c" /* NOLINT(bugprone-suspicious-include) */

static int reset(void **state)
{
    (void)state;
    allocations_left = -1;
    return 0;
}

static void appended_text_is_always_terminated(void **state)
{
    auto_str struct str s = { 0 };

    (void)state;
    str_puts(&s, "ab");
    str_putc(&s, 'c');
    str_add(&s, "\0d", 2);
    str_printf(&s, "%d-%s", 7, "x");
    assert_true(str_ok(&s));
    assert_int_equal(s.len, 8);
    assert_memory_equal(s.data, "abc\0d7-x", 9);
}

static void a_string_grows_past_any_first_guess(void **state)
{
    auto_str struct str s = { 0 };

    (void)state;
    for (int i = 0; i < 5000; i++)
        str_printf(&s, "%d,", i % 10);
    assert_int_equal(s.len, 10000);
    assert_memory_equal(s.data + 9996, "8,9,", 5);
}

static void taking_an_empty_string_gives_an_empty_text(void **state)
{
    struct str s = { 0 };
    char *text = str_take(&s);

    (void)state;
    assert_string_equal(text, "");
    assert_null(s.data);
    free(text);
}

static void taking_moves_the_bytes_out(void **state)
{
    struct str s = { 0 };
    char *text;

    (void)state;
    str_puts(&s, "moved");
    text = str_take(&s);
    assert_string_equal(text, "moved");
    assert_null(s.data);
    assert_int_equal(s.len, 0);
    free(text);
}

static void after_a_failed_append_nothing_is_added_and_nothing_can_be_taken(
    void **state)
{
    struct str s = { 0 };
    volatile size_t too_much = SIZE_MAX - 2; /* hidden from the compiler's own check */

    (void)state;
    str_puts(&s, "kept");
    str_add(&s, "x", too_much);
    assert_false(str_ok(&s));
    str_puts(&s, "more");
    str_printf(&s, "%d", 1);
    assert_int_equal(s.len, 4);
    assert_string_equal(s.data, "kept");
    assert_null(str_take(&s));
    assert_null(s.data);
}

static void lack_of_memory_is_sticky_wherever_it_strikes(void **state)
{
    (void)state;
    for (int n = 0; n < 3; n++) {
        auto_str struct str s = { 0 };

        allocations_left = n;
        for (int i = 0; i < 100; i++)
            str_printf(&s, "%s", "0123456789");
        assert_false(str_ok(&s));
        allocations_left = -1;
        str_puts(&s, "again");
        assert_false(str_ok(&s));
        assert_null(str_take(&s));
    }
}

static void a_list_owns_copies_and_ends_in_null(void **state)
{
    auto_strv struct strv v = { 0 };
    char text[] = "first";

    (void)state;
    strv_push(&v, text);
    text[0] = 'X';
    strv_printf(&v, "%s-%d", "second", 2);
    for (int i = 0; i < 50; i++)
        strv_push(&v, "more");
    assert_true(strv_ok(&v));
    assert_int_equal(v.count, 52);
    assert_string_equal(v.items[0], "first");
    assert_string_equal(v.items[1], "second-2");
    assert_null(v.items[52]);
}

static void membership_is_by_whole_text(void **state)
{
    auto_strv struct strv v = { 0 };

    (void)state;
    strv_push(&v, "seccomp");
    assert_true(strv_has(&v, "seccomp"));
    assert_false(strv_has(&v, "sec"));
    assert_false(strv_has(&v, "seccomp2"));
}

static void a_list_can_be_appended_to_itself(void **state)
{
    auto_strv struct strv v = { 0 }, empty = { 0 };

    (void)state;
    strv_push(&v, "a");
    strv_push(&v, "b");
    strv_copy(&v, &v);
    strv_copy(&v, &empty);
    assert_int_equal(v.count, 4);
    assert_string_equal(v.items[3], "b");
    assert_null(v.items[4]);
}

static void a_list_that_lost_an_item_says_so_and_so_does_its_copy(void **state)
{
    auto_strv struct strv copy = { 0 };

    (void)state;
    for (int n = 0; n < 9; n++) {
        auto_strv struct strv v = { 0 };

        allocations_left = n;
        for (int i = 0; i < 10; i++)
            strv_push(&v, "item");
        assert_false(strv_ok(&v));
        assert_true(v.count < 10);
        allocations_left = -1;
        strv_push(&v, "late");
        strv_printf(&v, "%s", "late");
        assert_false(strv_has(&v, "late"));
        strv_copy(&copy, &v);
        assert_false(strv_ok(&copy));
    }
}

static void a_formatted_item_without_memory_fails_the_list(void **state)
{
    auto_strv struct strv v = { 0 };

    (void)state;
    allocations_left = 0;
    strv_printf(&v, "%d", 1);
    assert_false(strv_ok(&v));
    assert_int_equal(v.count, 0);
}

static void a_blob_keeps_nul_bytes_and_is_terminated(void **state)
{
    struct blob b = { 0 };

    (void)state;
    assert_int_equal(blob_set(&b, "a\0b", 3), 0);
    assert_int_equal(b.len, 3);
    assert_memory_equal(b.data, "a\0b", 4);
    assert_int_equal(blob_set(&b, NULL, 0), 0);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    blob_done(&b);
    assert_null(b.data);
}

static void a_blob_that_cannot_be_set_keeps_what_it_had(void **state)
{
    struct blob b = { 0 };

    (void)state;
    assert_int_equal(blob_set(&b, "old", 3), 0);
    allocations_left = 0;
    assert_int_equal(blob_set(&b, "new", 3), -1);
    allocations_left = -1;
    assert_int_equal(blob_set(&b, "new", SIZE_MAX), -1);
    assert_string_equal(b.data, "old");
    blob_done(&b);
}

static void null_equals_only_null(void **state)
{
    (void)state;
    assert_true(str_eq(NULL, NULL));
    assert_false(str_eq(NULL, ""));
    assert_false(str_eq("", NULL));
    assert_true(str_eq("a", "a"));
    assert_false(str_eq("a", "b"));
}

static void moved_bytes_are_behind_those_that_are_there(void **state)
{
    auto_str struct str to = { 0 };
    auto_str struct str from = { 0 };

    (void)state;
    str_puts(&from, "one");
    str_move(&to, &from);
    assert_string_equal(to.data, "one");
    assert_int_equal(from.len, 0);
    str_puts(&from, "two");
    str_move(&to, &from);
    assert_string_equal(to.data, "onetwo");
    assert_int_equal(from.len, 0);
    str_move(&to, &from); /* nothing */
    assert_string_equal(to.data, "onetwo");
    from.failed = true;
    str_move(&to, &from);
    assert_false(str_ok(&to));
}

static void a_prefix_may_be_empty_but_not_longer(void **state)
{
    (void)state;
    assert_true(str_starts("abc", ""));
    assert_true(str_starts("abc", "abc"));
    assert_false(str_starts("ab", "abc"));
    assert_false(str_starts("xbc", "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_text_is_always_terminated),
        cmocka_unit_test(a_string_grows_past_any_first_guess),
        cmocka_unit_test(taking_an_empty_string_gives_an_empty_text),
        cmocka_unit_test(taking_moves_the_bytes_out),
        cmocka_unit_test(
            after_a_failed_append_nothing_is_added_and_nothing_can_be_taken),
        cmocka_unit_test_teardown(lack_of_memory_is_sticky_wherever_it_strikes, reset),
        cmocka_unit_test(a_list_owns_copies_and_ends_in_null),
        cmocka_unit_test(membership_is_by_whole_text),
        cmocka_unit_test(a_list_can_be_appended_to_itself),
        cmocka_unit_test_teardown(a_list_that_lost_an_item_says_so_and_so_does_its_copy,
                                  reset),
        cmocka_unit_test_teardown(a_formatted_item_without_memory_fails_the_list,
                                  reset),
        cmocka_unit_test(a_blob_keeps_nul_bytes_and_is_terminated),
        cmocka_unit_test_teardown(a_blob_that_cannot_be_set_keeps_what_it_had, reset),
        cmocka_unit_test(null_equals_only_null),
        cmocka_unit_test(moved_bytes_are_behind_those_that_are_there),
        cmocka_unit_test(a_prefix_may_be_empty_but_not_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
